//! How a frame is written for people: short names, short paths, and which frames say
//! something about the program.
//!
//! Apart from `text` because suppressions, SARIF and grouping need the same notions.

use crate::names::{Frame, base_name};

/// Modules whose functions say less than their callers.
const SYSTEM_MODULES: [&str; 10] =
    ["libc.so", "libc-", "ld-linux", "libpthread", "libstdc++", "libc++", "libgcc_s", "libatomic", "libm.so", "[vdso]"];
/// Files whose inlined functions say less than their callers.
const SYSTEM_FILES: [&str; 4] = ["/usr/include/", "/usr/lib/gcc/", "/rustc/", "/usr/src/"];

/// The frame's module is the C or C++ library, or the loader.
pub fn is_system_module(frame: &Frame) -> bool {
    let name = frame.module.as_deref().map(base_name).unwrap_or_default();
    SYSTEM_MODULES.iter().any(|system| name.starts_with(system))
}

/// The frame is in a system library, or inlined from one of its headers.
pub fn is_system(frame: &Frame) -> bool {
    let file = frame.file.as_deref().unwrap_or_default();
    is_system_module(frame)
        || SYSTEM_FILES.iter().any(|system| file.starts_with(system) || file.contains("/rustlib/src/"))
}

/// The innermost frame that the program's authors wrote, whether it has a name or not; the innermost one if there is
/// none.
pub fn own(stack: &[Frame]) -> Option<&Frame> {
    stack.iter().find(|frame| !is_system(frame)).or_else(|| stack.first())
}

/// The innermost frames that tell one source place from another: those that the program's authors wrote, or all if
/// there are none. Which of its variants a library function chose, and where in it an access was, says nothing.
pub fn telling(stack: &[Frame]) -> impl Iterator<Item = &Frame> {
    /// A helper called from two lines is two places; a caller further out makes no difference.
    const FRAMES: usize = 2;
    let all = stack.iter().all(is_system);
    stack.iter().filter(move |frame| all || !is_system(frame)).take(FRAMES)
}

/// A demangled name without result, parameters and what follows them: `void a::b<int>::c(int) const` is
/// `a::b<int>::c`.
pub fn plain(name: &str) -> String {
    let (mut depth, mut start, mut end) = (0usize, 0, name.len());
    let mut previous = ' ';
    for (at, letter) in name.char_indices() {
        match letter {
            // `(anonymous namespace)` and `operator()` are parts of names.
            '(' if depth == 0 && at > start && !is_part(&name[..at], &name[at..]) => {
                end = at;
                break;
            }
            '<' | '>' if is_operator(&name[..at]) => {}
            '>' if previous == '-' => {}
            '<' | '{' | '(' => depth += 1,
            '>' | '}' | ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && !follows_operator(&name[start..at]) => start = at + 1,
            _ => {}
        }
        previous = letter;
    }
    name[start..end].to_owned()
}

/// What stands before an angle bracket that compares or shifts.
fn is_operator(before: &str) -> bool {
    ["operator", "operator<", "operator>"].iter().any(|operator| before.ends_with(operator))
}

/// `operator int` and `operator<< <int>` have blanks in their names.
fn follows_operator(before: &str) -> bool {
    before.rsplit("::").next().is_some_and(|last| last.starts_with("operator"))
}

fn is_part(before: &str, from: &str) -> bool {
    from.starts_with("(anonymous namespace)") || before.ends_with("operator")
}

/// A name as short as it can be told: without parameters and template arguments, with `()`.
pub fn short(name: &str) -> String {
    let plain = plain(name);
    let mut text = String::new();
    let mut depth = 0usize;
    // `operator<` and `operator<<` are no templates; a name that begins with `<` (Rust) is kept whole.
    let bare = !plain.contains("operator") && !plain.starts_with('<');
    let mut previous = ' ';
    for letter in plain.chars() {
        match letter {
            '<' if bare => depth += 1,
            '>' if bare && previous != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => text.push(letter),
            _ => {}
        }
        previous = letter;
    }
    // `vector<int>::push_back` and `spawn::<T>` leave different traces of what was taken out.
    text.replace("::::", "::").trim_end_matches("::").to_owned() + "()"
}

/// The function, or the module and offset of a frame without one.
pub fn function(frame: &Frame) -> String {
    frame.function.as_deref().map_or_else(|| module_offset(frame), short)
}

/// `module+0x1234`, or the bare address.
pub fn module_offset(frame: &Frame) -> String {
    match &frame.module {
        Some(module) => format!("{}+{:#x}", base_name(module), frame.offset),
        None => format!("{:#x}", frame.offset),
    }
}

/// `file.c:31`, or the module and offset.
pub fn short_place(frame: &Frame) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{}:{line}", base_name(file)),
        _ => module_offset(frame),
    }
}

/// `function() file.c:31` as far as it is known.
pub fn describe(frame: &Frame) -> String {
    match frame.function {
        Some(_) => format!("{} {}", function(frame), short_place(frame)),
        None => short_place(frame),
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, describe, own, plain, short};

    #[test]
    fn names_get_short_without_losing_what_they_name() {
        let names = [
            ("worker", "worker", "worker()"),
            ("a::b<int>::c(int, char) const", "a::b<int>::c", "a::b::c()"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f", "(anonymous namespace)::f()"),
            ("x::operator()(int) const", "x::operator()", "x::operator()()"),
            ("a& a::operator<< <int>(int)", "a::operator<< <int>", "a::operator<< <int>()"),
            ("operator<<(int)", "operator<<", "operator<<()"),
            ("std::thread::spawn::<F, fn() -> T>", "std::thread::spawn::<F, fn() -> T>", "std::thread::spawn()"),
            ("<a::B as c::D>::e", "<a::B as c::D>::e", "<a::B as c::D>::e()"),
            ("f<void (int)>(int)", "f<void (int)>", "f()"),
            ("void a::f<int>(int)", "a::f<int>", "a::f()"),
            (
                "main::{lambda(int)#1}::operator()(int) const",
                "main::{lambda(int)#1}::operator()",
                "main::{lambda(int)#1}::operator()()",
            ),
            ("C::operator int() const", "C::operator int", "C::operator int()"),
        ];
        for (name, expected, shorter) in names {
            assert_eq!((plain(name).as_str(), short(name).as_str()), (expected, shorter));
        }
    }

    #[test]
    fn the_own_frame_is_outside_of_libraries() {
        let frame = |function: &str, file: &str, module: &str| Frame {
            function: Some(function.to_owned()),
            file: (!file.is_empty()).then(|| file.to_owned()),
            line: Some(3),
            module: Some(module.to_owned()),
            ..Frame::default()
        };
        let stack = [
            frame("memcpy", "", "/lib/libc.so.6"),
            frame("std::copy<int>", "/usr/include/c++/12/bits/stl_algo.h", "/bin/p"),
            frame("mine", "/src/p.cc", "/bin/p"),
        ];
        assert_eq!(own(&stack).map(describe).as_deref(), Some("mine() p.cc:3"));
        assert_eq!(own(&stack[..1]).map(describe).as_deref(), Some("memcpy() libc.so.6+0x0"));
        // Its caller has a name, but is not where the access is.
        let bare = Frame { module: Some("/lib/plugin.so".to_owned()), offset: 0x40, ..Frame::default() };
        let called = [stack[0].clone(), bare, stack[2].clone()];
        assert_eq!(own(&called).map(describe).as_deref(), Some("plugin.so+0x40"));
        assert_eq!(own(&[]), None);
    }
}
