//! The closed table of libc's functions that are looked at as a whole: which of their
//! arguments point to memory of the caller, and how much of it they read and write.
//!
//! A row claims nothing that a function may leave alone. Of a string everything up to
//! its end counts, because nobody knows where that is without a look at each byte; of
//! a comparison what comes up to the first difference. What the functions of
//! `observed.rs` do inside of others is seen there.

use super::shapes::Effect::{
    self, Compare, CompareWithin, Extend, Format, Get, Make, Read, Scan, Search, SearchWithin, Separate, Token, Write,
};
use super::shapes::Extent::{
    Bytes, EndOfNumber, Fraction, Hit, HitFromEnd, HitUpTo, Number, Result, ResultUpTo, Text, TextWithin, Whole,
    WholeUpTo,
};
use super::shapes::From::{List, Passed};
use super::shapes::Means::{self, Anything, NotMinusOne, NotNegative, NotNull};
use core::ffi::CStr;

/// Functions that do the same.
pub(super) struct Row {
    pub(super) names: &'static [&'static CStr],
    /// How many of the first arguments matter.
    pub(super) arguments: u8,
    /// Bytes of an element of their strings.
    pub(super) unit: u64,
    /// Which results mean that it did what it does.
    pub(super) means: Means,
    /// Whether its result is in a vector register.
    pub(super) floating: bool,
    /// Whether our own fronts call it in the program's place.
    pub(super) by_fronts: bool,
    pub(super) effects: &'static [Effect],
}

const fn row(names: &'static [&'static CStr], arguments: u8, effects: &'static [Effect]) -> Row {
    Row { names, arguments, unit: 1, means: Anything, floating: false, by_fronts: false, effects }
}

impl Row {
    /// The same for wide characters.
    const fn wide(self) -> Self {
        Self { unit: 4, ..self }
    }

    /// If the result says so.
    const fn if_it(self, means: Means) -> Self {
        Self { means, ..self }
    }

    const fn floating(self) -> Self {
        Self { floating: true, ..self }
    }

    const fn by_fronts(self) -> Self {
        Self { by_fronts: true, ..self }
    }

    /// Which argument is a `va_list`.
    pub(super) fn list(&self) -> Option<u8> {
        self.effects.iter().find_map(|effect| match effect {
            Format(_, List(list)) | Scan(_, List(list)) => Some(*list as u8),
            _ => None,
        })
    }
}

pub(super) const ROWS: &[Row] = &[
    // Lengths and characters.
    row(&[c"strlen"], 1, &[Read(0, Result)]),
    row(&[c"strnlen"], 2, &[Read(0, ResultUpTo(1))]),
    row(&[c"strchr", c"index", c"strchrnul", c"rawmemchr", c"__rawmemchr"], 1, &[Read(0, Hit)]),
    row(&[c"strrchr", c"rindex"], 1, &[Read(0, Whole)]),
    row(&[c"memchr"], 3, &[Read(0, HitUpTo(2))]),
    row(&[c"memrchr"], 3, &[Read(0, HitFromEnd(2))]),
    row(&[c"strspn", c"strcspn"], 2, &[Read(0, Result), Read(1, Whole)]),
    row(&[c"strpbrk"], 2, &[Read(0, Hit), Read(1, Whole)]),
    row(&[c"wcslen"], 1, &[Read(0, Result)]).wide(),
    row(&[c"wcsnlen"], 2, &[Read(0, ResultUpTo(1))]).wide(),
    row(&[c"wcschr", c"wcschrnul"], 1, &[Read(0, Hit)]).wide(),
    row(&[c"wcsrchr"], 1, &[Read(0, Whole)]).wide(),
    row(&[c"wmemchr"], 3, &[Read(0, HitUpTo(2))]).wide(),
    // Comparisons.
    row(&[c"strcmp", c"strcoll", c"strcoll_l", c"__strcoll_l", c"strverscmp", c"__strverscmp"], 2, &[Compare(None)]),
    row(&[c"strcasecmp", c"__strcasecmp", c"strcasecmp_l", c"__strcasecmp_l"], 2, &[Compare(None)]),
    row(&[c"strncmp", c"strncasecmp", c"strncasecmp_l", c"__strncasecmp_l"], 3, &[Compare(Some(2))]),
    row(&[c"wcscmp", c"wcscasecmp", c"__wcscasecmp_l", c"wcscasecmp_l"], 2, &[Compare(None)]).wide(),
    row(&[c"wcsncmp", c"wcsncasecmp", c"wcsncasecmp_l"], 3, &[Compare(Some(2))]).wide(),
    row(&[c"memcmp", c"bcmp"], 3, &[CompareWithin(2)]),
    row(&[c"wmemcmp"], 3, &[CompareWithin(2)]).wide(),
    // Texts in texts.
    row(&[c"strstr", c"strcasestr", c"__strcasestr"], 2, &[Search]),
    row(&[c"wcsstr", c"wcswcs"], 2, &[Search]).wide(),
    row(&[c"memmem"], 4, &[SearchWithin]),
    row(&[c"strsep", c"__strsep_g"], 2, &[Separate]),
    row(&[c"strtok_r", c"__strtok_r"], 3, &[Token]),
    // What is copied from; what is copied to is seen instruction by instruction.
    row(&[c"strcpy", c"stpcpy", c"__stpcpy", c"__strcpy_chk", c"__stpcpy_chk"], 2, &[Read(1, Whole)]),
    row(&[c"strncpy", c"stpncpy", c"__strncpy_chk", c"__stpncpy_chk"], 3, &[Read(1, WholeUpTo(2))]),
    row(&[c"strcat", c"__strcat_chk"], 2, &[Read(1, Whole), Extend(None)]),
    row(&[c"strncat", c"__strncat_chk"], 3, &[Read(1, WholeUpTo(2)), Extend(Some(2))]),
    row(&[c"wcscpy", c"wcpcpy", c"__wcscpy_chk", c"__wcpcpy_chk"], 2, &[Read(1, Whole)]).wide(),
    row(&[c"wcsncpy", c"wcpncpy", c"__wcsncpy_chk", c"__wcpncpy_chk"], 3, &[Read(1, WholeUpTo(2))]).wide(),
    row(&[c"wcscat", c"__wcscat_chk"], 2, &[Read(1, Whole), Extend(None)]).wide(),
    row(&[c"wcsncat", c"__wcsncat_chk"], 3, &[Read(1, WholeUpTo(2)), Extend(Some(2))]).wide(),
    row(&[c"strndup", c"__strndup"], 2, &[Read(0, WholeUpTo(1))]).if_it(NotNull),
    // Numbers in texts.
    row(&[c"atoi", c"atol", c"atoll"], 1, &[Read(0, Number(None))]),
    row(
        &[
            c"strtol",
            c"strtoul",
            c"strtoll",
            c"strtoull",
            c"strtoq",
            c"strtouq",
            c"strtoimax",
            c"strtoumax",
            c"strtol_l",
            c"__strtol_l",
            c"strtoul_l",
            c"__strtoul_l",
            c"strtoll_l",
            c"strtoull_l",
            c"__strtoll_l",
            c"__strtoull_l",
        ],
        3,
        &[Read(0, Number(Some(2))), Write(1, EndOfNumber(2))],
    ),
    row(&[c"atof"], 1, &[Read(0, Fraction(None))]).floating(),
    row(
        &[
            c"strtod",
            c"strtof",
            c"strtold",
            c"strtod_l",
            c"strtof_l",
            c"strtold_l",
            c"__strtod_l",
            c"__strtof_l",
            c"__strtold_l",
        ],
        2,
        &[Read(0, Fraction(Some(1))), Write(1, Bytes(8))],
    )
    .floating(),
    // Formatted output into memory.
    row(&[c"sprintf"], 6, &[Write(0, Text), Format(1, Passed(2))]).if_it(NotNegative),
    row(&[c"__sprintf_chk"], 6, &[Write(0, Text), Format(3, Passed(4))]).if_it(NotNegative),
    row(&[c"vsprintf"], 3, &[Write(0, Text), Format(1, List(2))]).if_it(NotNegative),
    row(&[c"__vsprintf_chk"], 5, &[Write(0, Text), Format(3, List(4))]).if_it(NotNegative),
    row(&[c"snprintf"], 6, &[Write(0, TextWithin(1)), Format(2, Passed(3))]).if_it(NotNegative),
    row(&[c"__snprintf_chk"], 6, &[Write(0, TextWithin(1)), Format(4, Passed(5))]).if_it(NotNegative),
    row(&[c"vsnprintf"], 4, &[Write(0, TextWithin(1)), Format(2, List(3))]).if_it(NotNegative),
    row(&[c"__vsnprintf_chk"], 6, &[Write(0, TextWithin(1)), Format(4, List(5))]).if_it(NotNegative),
    row(&[c"asprintf", c"__asprintf"], 6, &[Make, Format(1, Passed(2))]).if_it(NotNegative),
    row(&[c"__asprintf_chk"], 6, &[Make, Format(2, Passed(3))]).if_it(NotNegative),
    row(&[c"vasprintf"], 3, &[Make, Format(1, List(2))]).if_it(NotNegative),
    row(&[c"__vasprintf_chk"], 4, &[Make, Format(2, List(3))]).if_it(NotNegative),
    // And elsewhere.
    row(&[c"vprintf"], 2, &[Format(0, List(1))]).if_it(NotNegative).by_fronts(),
    row(&[c"__vprintf_chk"], 3, &[Format(1, List(2))]).if_it(NotNegative).by_fronts(),
    row(&[c"vfprintf", c"vdprintf"], 3, &[Format(1, List(2))]).if_it(NotNegative).by_fronts(),
    row(&[c"__vfprintf_chk", c"__vdprintf_chk"], 4, &[Format(2, List(3))]).if_it(NotNegative).by_fronts(),
    // Formatted input.
    row(&[c"sscanf", c"__isoc99_sscanf"], 6, &[Read(0, Whole), Scan(1, Passed(2))]),
    row(&[c"vsscanf", c"__isoc99_vsscanf"], 3, &[Read(0, Whole), Scan(1, List(2))]),
    row(&[c"vscanf", c"__isoc99_vscanf"], 2, &[Scan(0, List(1))]).by_fronts(),
    row(&[c"vfscanf", c"__isoc99_vfscanf"], 3, &[Scan(1, List(2))]).by_fronts(),
    row(&[c"getdelim", c"__getdelim", c"getline"], 2, &[Get]).by_fronts(),
    // Times, which our fronts order.
    row(&[c"strftime", c"strftime_l", c"__strftime_l"], 3, &[Write(0, Result), Read(2, Whole)])
        .if_it(NotNull)
        .by_fronts(),
    row(&[c"asctime_r"], 2, &[Read(0, Bytes(28)), Write(1, Whole)]).if_it(NotNull),
    row(&[c"ctime_r"], 2, &[Read(0, Bytes(8)), Write(1, Whole)]).if_it(NotNull).by_fronts(),
    row(&[c"gmtime_r", c"__gmtime_r", c"localtime_r"], 2, &[Read(0, Bytes(8)), Write(1, Bytes(36))])
        .if_it(NotNull)
        .by_fronts(),
    row(&[c"mktime", c"timelocal", c"timegm"], 1, &[Write(0, Bytes(36))]).if_it(NotMinusOne).by_fronts(),
    row(&[c"rand_r"], 1, &[Write(0, Bytes(4))]).by_fronts(),
    row(&[c"modf"], 1, &[Write(0, Bytes(8))]).floating(),
    row(&[c"modff", c"frexp", c"frexpf"], 1, &[Write(0, Bytes(4))]).floating(),
];
