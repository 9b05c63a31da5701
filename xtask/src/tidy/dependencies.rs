//! Who may depend on whom (DESIGN, section 3), and under which licences.
//!
//! Apart because it reads `cargo metadata`, where the other rules read files.

use super::{Finding, Findings};
use crate::run::{Failure, Outcome};
use cargo_metadata::{DependencyKind, Metadata, Package};
use std::collections::BTreeMap;

/// What a crate of the workspace may use.
struct Rule {
    package: &'static str,
    /// Crates of the workspace.
    workspace: &'static [&'static str],
    /// Crates from outside that are not optional; `None` where the choice is free.
    outside: Option<&'static [&'static str]>,
}

/// A crate that is not here has no place in the design yet.
///
/// Fronts and runtime never see `session`, and `session` never sees them: one
/// side lives in the recorded process, the other starts it. `order`, `trace`'s
/// encoder, the runtime and the preloaded library link nothing from outside,
/// because whatever they link runs inside somebody else's program. The translator
/// runs there, too: of outside crates it has the decoder alone.
const RULES: &[Rule] = &[
    Rule { package: "relive-order", workspace: &[], outside: Some(&[]) },
    Rule { package: "relive-trace", workspace: &["relive-order"], outside: Some(&[]) },
    Rule { package: "relive-symbols", workspace: &[], outside: Some(&[]) },
    Rule { package: "relive-calls", workspace: &[], outside: Some(&[]) },
    Rule { package: "relive-heap", workspace: &[], outside: Some(&[]) },
    Rule { package: "relive-sys", workspace: &[], outside: Some(&[]) },
    Rule { package: "relive-dbi", workspace: &["relive-sys"], outside: Some(&["iced-x86"]) },
    Rule { package: "relive-race", workspace: &["relive-order", "relive-sys"], outside: None },
    Rule { package: "relive-accesses", workspace: &["relive-dbi", "relive-race"], outside: Some(&["iced-x86"]) },
    Rule { package: "relive-findings", workspace: &["relive-trace", "relive-sys"], outside: None },
    Rule {
        package: "relive-rt",
        workspace: &[
            "relive-order",
            "relive-trace",
            "relive-calls",
            "relive-heap",
            "relive-sys",
            "relive-dbi",
            "relive-race",
            "relive-accesses",
        ],
        outside: Some(&[]),
    },
    Rule {
        package: "relive-preload",
        workspace: &["relive-order", "relive-trace", "relive-symbols", "relive-sys", "relive-rt"],
        outside: Some(&[]),
    },
    Rule { package: "relive-start", workspace: &["relive-order", "relive-trace", "relive-sys"], outside: Some(&[]) },
    Rule {
        package: "relive-session",
        workspace: &["relive-order", "relive-trace", "relive-symbols", "relive-calls", "relive-sys", "relive-findings"],
        outside: None,
    },
    Rule {
        package: "relive",
        workspace: &[
            "relive-order",
            "relive-trace",
            "relive-symbols",
            "relive-calls",
            "relive-sys",
            "relive-session",
            "relive-findings",
        ],
        outside: None,
    },
    Rule { package: "xtask", workspace: &["relive-trace"], outside: None },
];

/// Only the binary turns errors into text without a type.
const ONLY_CLI: &[&str] = &["anyhow", "eyre", "color-eyre"];

/// Crates whose use of `trace` must leave its `std` feature off.
const WITHOUT_STD: &[&str] = &["relive-rt", "relive-preload", "relive-start"];

/// The part of `deny.toml` that tidy reads; cargo-deny reads it all.
#[derive(serde::Deserialize)]
struct Deny {
    licenses: Licences,
    bans: Bans,
}

#[derive(serde::Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Bans {
    #[serde(default)]
    skip: Vec<Skip>,
}

#[derive(serde::Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    name: String,
}

/// Holds `metadata` against [`RULES`] and against `deny`, the text of `deny.toml`.
pub(super) fn check(metadata: &Metadata, deny: &str, findings: &mut Findings) -> Outcome {
    let members: Vec<&Package> = metadata.workspace_packages();
    for package in &members {
        let name = package.name.as_str();
        let Some(rule) = RULES.iter().find(|r| r.package == name) else {
            let what = "a crate without a rule: say in xtask/src/tidy/dependencies.rs what it may use";
            findings.errors.push(Finding::new(package.manifest_path.as_str(), what));
            continue;
        };
        for dependency in &package.dependencies {
            let is_member = members.iter().any(|m| m.name.as_str() == dependency.name);
            if let Some(what) = verdict(rule, dependency, is_member) {
                findings.errors.push(Finding::new(format!("{name}'s Cargo.toml"), what));
            }
        }
    }
    let deny: Deny = toml::from_str(deny).map_err(|e| Failure::Other(format!("deny.toml: {e}")))?;
    licences(metadata, &deny.licenses.allow, findings);
    duplicates(metadata, &deny.bans.skip, findings);
    Ok(())
}

/// What is wrong with one dependency, if anything is.
fn verdict(rule: &Rule, dependency: &cargo_metadata::Dependency, is_member: bool) -> Option<String> {
    let name = dependency.name.as_str();
    if ONLY_CLI.contains(&name) && rule.package != "relive" {
        return Some(format!("uses {name}: only the binary does; give the error a type"));
    }
    // A model checker stands in for the primitives only under `--cfg loom`; nothing that ships links it.
    let model = dependency.target.as_ref().is_some_and(|target| target.to_string() == "cfg(loom)");
    if dependency.kind != DependencyKind::Normal || model {
        return None;
    }
    if is_member && !rule.workspace.contains(&name) {
        return Some(format!("uses {name}: DESIGN section 3 forbids it"));
    }
    if name == "relive-trace" && WITHOUT_STD.contains(&rule.package) {
        let with_std = dependency.uses_default_features || dependency.features.iter().any(|f| f == "std");
        return with_std.then(|| "uses relive-trace with std: the recorded process has none".to_owned());
    }
    let outside = rule.outside?;
    (!is_member && !dependency.optional && !outside.contains(&name))
        .then(|| format!("uses {name}: this crate links nothing from outside the workspace"))
}

fn licences(metadata: &Metadata, allowed: &[String], findings: &mut Findings) {
    let allows = |req: &spdx::LicenseReq| allowed.iter().any(|a| *a == req.to_string());
    for package in &metadata.packages {
        let place = format!("{} {}", package.name, package.version);
        // Older crates write a slash where SPDX wants OR.
        let text = package.license.clone().unwrap_or_default().replace('/', " OR ");
        match spdx::Expression::parse(&text) {
            Ok(expression) if expression.evaluate(allows) => {}
            Ok(_) => findings.errors.push(Finding::new(place, format!("licence {text}: not among deny.toml's"))),
            Err(_) => findings.errors.push(Finding::new(place, format!("licence `{text}`: not an SPDX expression"))),
        }
    }
}

fn duplicates(metadata: &Metadata, skip: &[Skip], findings: &mut Findings) {
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for package in &metadata.packages {
        versions.entry(package.name.as_str()).or_default().push(package.version.to_string());
    }
    for (name, versions) in versions.into_iter().filter(|(_, v)| v.len() > 1) {
        let skipped = skip.iter().any(|s| s.name == name || s.name.starts_with(&format!("{name}@")));
        if !skipped {
            let what = format!("in {} versions: {}", versions.len(), versions.join(", "));
            findings.warnings.push(Finding::new(name, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RULES;

    #[test]
    fn neither_side_of_the_process_border_sees_the_other() {
        let allowed = |name: &str| RULES.iter().find(|r| r.package == name).expect("a rule").workspace;
        assert!(!allowed("relive-preload").contains(&"relive-session"));
        assert!(!allowed("relive-rt").contains(&"relive-session"));
        assert!(!allowed("relive-session").contains(&"relive-rt"));
        assert!(!allowed("relive").contains(&"relive-rt"));
        assert!(allowed("relive-order").is_empty());
    }
}
