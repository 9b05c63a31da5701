//! How many recordings there are of one case.
//!
//! Apart because guests and the environment's cases are judged by different code, and take the same number.

/// Those of each argument line or case: `RELIVE_TEST_RUNS`, or as many as show that they differ.
pub(crate) fn runs() -> usize {
    std::env::var("RELIVE_TEST_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}
