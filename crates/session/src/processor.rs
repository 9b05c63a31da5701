//! Whether this machine's processor can do what the recording one could.
//!
//! C libraries, and programs with code for several processors, ask which
//! instructions there are and go by the answer. A replay goes the way of the
//! recording, so an instruction that was there must be here. One more does no
//! harm to libc, whose functions do the same whichever it picks.

use relive_trace::manifest::Host;
use std::collections::BTreeSet;

/// Names in `/proc/cpuinfo` of what programs choose code by. The rest is the kernel's business: how it idles, counts or
/// keeps secrets.
const CHOSEN_BY: &[&str] = &[
    "3dnow",
    "3dnowext",
    "3dnowprefetch",
    "abm",
    "adx",
    "aes",
    "avx",
    "avx2",
    "bmi1",
    "bmi2",
    "cldemote",
    "clflushopt",
    "clwb",
    "clzero",
    "cx16",
    "cx8",
    "enqcmd",
    "erms",
    "f16c",
    "fma",
    "fma4",
    "fsgsbase",
    "fsrc",
    "fsrm",
    "fsrs",
    "fxsr",
    "fzrm",
    "gfni",
    "hle",
    "lahf_lm",
    "mmx",
    "mmxext",
    "movbe",
    "movdir64b",
    "movdiri",
    "ospke",
    "pclmulqdq",
    "pku",
    "pni",
    "popcnt",
    "prefetchi",
    "prefetchwt1",
    "rdpid",
    "rdrand",
    "rdseed",
    "rdtscp",
    "rtm",
    "serialize",
    "sha512",
    "sha_ni",
    "sm3",
    "sm4",
    "sse",
    "sse2",
    "sse4_1",
    "sse4_2",
    "sse4a",
    "ssse3",
    "tbm",
    "user_shstk",
    "vaes",
    "vpclmulqdq",
    "waitpkg",
    "xgetbv1",
    "xop",
    "xsave",
    "xsavec",
    "xsaveopt",
    "xsaves",
];
/// Families of names, of which every new processor adds some.
const FAMILIES: &[&str] = &["amx_", "avx512", "avx_", "avx10", "apx"];

/// What the recording's processor had and this one lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this processor ({here}) lacks {}, which the recording's ({recorded}) had", missing.join(", ")
)]
pub struct Lacks {
    /// Model of this processor.
    pub here: String,
    /// Model of the recording's.
    pub recorded: String,
    /// As `/proc/cpuinfo` names it.
    pub missing: Vec<String>,
}

/// Compares two machines. A recording that knows no features of its own machine fits everywhere.
///
/// # Errors
/// [`Lacks`].
pub fn check(recorded: &Host, here: &Host) -> Result<(), Lacks> {
    let has: BTreeSet<&str> = here.features.iter().map(String::as_str).collect();
    let missing: Vec<String> =
        recorded.features.iter().filter(|name| is_chosen_by(name) && !has.contains(name.as_str())).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let model = |host: &Host| if host.processor.is_empty() { "unknown".to_owned() } else { host.processor.clone() };
    Err(Lacks { here: model(here), recorded: model(recorded), missing })
}

fn is_chosen_by(name: &str) -> bool {
    CHOSEN_BY.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::check;
    use relive_trace::manifest::Host;

    fn host(model: &str, features: &[&str]) -> Host {
        let features = features.iter().map(|&name| name.to_owned()).collect();
        Host { processor: model.to_owned(), features, ..Host::default() }
    }

    fn lacking(recorded: &[&str], here: &[&str]) -> String {
        check(&host("old", recorded), &host("new", here))
            .map_or_else(|lacks| lacks.missing.join(" "), |()| String::new())
    }

    #[test]
    fn only_what_programs_choose_code_by_must_be_there() {
        for (recorded, here, missing) in [
            (&["avx2", "sse2"][..], &["sse2", "avx2", "avx512f"][..], ""),
            (&["avx2", "avx512f", "avx512_vnni", "erms"], &["avx2"], "avx512f avx512_vnni erms"),
            (&["constant_tsc", "hypervisor", "mwaitx"], &[], ""),
            (&["amx_tile", "avx_vnni", "fsrm", "rtm"], &["fsrm"], "amx_tile avx_vnni rtm"),
            (&[], &[], ""),
        ] {
            assert_eq!(lacking(recorded, here), missing, "{recorded:?} on {here:?}");
        }
    }

    #[test]
    fn the_message_names_both_processors() {
        let said = check(&host("Fast 9", &["avx512f", "rtm"]), &host("", &[])).unwrap_err().to_string();
        assert_eq!(said, "this processor (unknown) lacks avx512f, rtm, which the recording's (Fast 9) had");
    }
}
