//! The exported stream functions, by what they do to which stream. Nothing else
//! lives here.

use super::list::Filter;
use super::{Operation, Shape, Which, counted, plain};
use crate::real::Real;
use crate::variadic::entry;
use core::ffi::CStr;

const fn name(terminated: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(terminated.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only zero"),
    }
}

macro_rules! operations {
    ($($shape:expr => $($name:ident)*;)*) => {$($(
        entry!($name, plain, Operation = Operation {
            real: Real::new(name(concat!(stringify!($name), "\0")), None),
            shape: $shape,
            fixed: 0,
        });
    )*)*};
}

macro_rules! variadic {
    ($($shape:expr, $fixed:literal => $($name:ident = $real:ident)*;)*) => {$($(
        entry!($name, counted, Operation = Operation {
            real: Real::new(name(concat!(stringify!($real), "\0")), None),
            shape: $shape,
            fixed: $fixed,
        });
    )*)*};
}

const fn on(argument: usize) -> Shape {
    Shape::On(Which::Argument(argument))
}

const fn bare(argument: usize) -> Shape {
    Shape::Bare(Which::Argument(argument))
}

const INPUT: Shape = Shape::On(Which::Input);
const OUTPUT: Shape = Shape::On(Which::Output);
const ERROR: Shape = Shape::On(Which::Error);

operations! {
    // Writing.
    on(0) => vfprintf _IO_vfprintf __vfprintf_chk vfwprintf __vfwprintf_chk;
    on(1) => fputs _IO_fputs fputc putc _IO_putc putw fputwc putwc fputws;
    on(3) => fwrite _IO_fwrite;
    OUTPUT => puts _IO_puts putchar putwchar vprintf __vprintf_chk vwprintf __vwprintf_chk;
    ERROR => perror psignal psiginfo vwarn vwarnx;

    // Reading.
    on(0) => fgetc getc _IO_getc _IO_peekc_locked getw fgetwc getwc vfscanf __vfscanf vfwscanf;
    on(0) => __isoc99_vfscanf __isoc99_vfwscanf;
    on(1) => ungetc _IO_ungetc ungetwc;
    on(2) => fgets _IO_fgets getline fgetws;
    on(3) => fread _IO_fread __fgets_chk __fgetws_chk getdelim __getdelim;
    on(4) => __fread_chk;
    INPUT => getchar getwchar gets _IO_gets __gets_chk vscanf vwscanf __isoc99_vscanf __isoc99_vwscanf;

    // Everything else under a stream's lock.
    on(0) => fseek fseeko fseeko64 __fseeko64 ftell _IO_ftell ftello ftello64 __ftello64 rewind;
    on(0) => fgetpos _IO_fgetpos fgetpos64 _IO_fgetpos64 fsetpos _IO_fsetpos fsetpos64 _IO_fsetpos64;
    on(0) => feof _IO_feof ferror _IO_ferror clearerr fwide;
    on(0) => setvbuf _IO_setvbuf setbuf setbuffer _IO_setbuffer setlinebuf;

    // Under no lock.
    bare(0) => fflush_unlocked fgetc_unlocked getc_unlocked fgetwc_unlocked getwc_unlocked;
    bare(0) => __overflow __underflow __uflow __woverflow __wunderflow __wuflow;
    bare(1) => fputc_unlocked putc_unlocked fputwc_unlocked putwc_unlocked fputs_unlocked fputws_unlocked;
    bare(2) => fgets_unlocked fgetws_unlocked;
    bare(3) => fwrite_unlocked fread_unlocked __fgets_unlocked_chk __fgetws_unlocked_chk;
    bare(4) => __fread_unlocked_chk;
    Shape::Bare(Which::Input) => getchar_unlocked getwchar_unlocked;
    Shape::Bare(Which::Output) => putchar_unlocked putwchar_unlocked;

    // Streams begin and end.
    Shape::Opens { by_name: true } => fopen fopen64 _IO_fopen;
    Shape::Opens { by_name: false } => fdopen _IO_fdopen fmemopen tmpfile tmpfile64;
    Shape::Closes(0) => fclose _IO_fclose;
    Shape::Reopens(2) => freopen freopen64;

    // Several streams.
    Shape::Flushes => fflush _IO_fflush;
    Shape::All { filter: Filter::Pending, also_real: false } => _IO_flush_all;
    Shape::All { filter: Filter::Pending, also_real: true } => fcloseall;
    Shape::All { filter: Filter::LineBuffered, also_real: false } => _flushlbf _IO_flush_all_linebuffered;
}

entry!(
    _IO_vfscanf,
    plain,
    Operation = Operation { real: Real::new(c"_IO_vfscanf", Some(c"GLIBC_2.2.5")), shape: on(0), fixed: 0 }
);

variadic! {
    OUTPUT, 1 => printf = vprintf _IO_printf = vprintf wprintf = vwprintf;
    OUTPUT, 2 => __printf_chk = __vprintf_chk __wprintf_chk = __vwprintf_chk;
    on(0), 2 => fprintf = vfprintf _IO_fprintf = vfprintf fwprintf = vfwprintf;
    on(0), 3 => __fprintf_chk = __vfprintf_chk __fwprintf_chk = __vfwprintf_chk;
    INPUT, 1 => scanf = vscanf wscanf = vwscanf __isoc99_scanf = __isoc99_vscanf __isoc99_wscanf = __isoc99_vwscanf;
    on(0), 2 => fscanf = vfscanf fwscanf = vfwscanf __isoc99_fscanf = __isoc99_vfscanf;
    on(0), 2 => __isoc99_fwscanf = __isoc99_vfwscanf;
    ERROR, 1 => warn = vwarn warnx = vwarnx;
    Shape::Dies, 2 => err = vwarn errx = vwarnx;
    Shape::Reports, 3 => error = error;
    Shape::Reports, 5 => error_at_line = error_at_line;
}

entry!(verr, plain, Operation = Operation { real: Real::new(c"vwarn", None), shape: Shape::Dies, fixed: 0 });
entry!(verrx, plain, Operation = Operation { real: Real::new(c"vwarnx", None), shape: Shape::Dies, fixed: 0 });
