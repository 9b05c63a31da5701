//! `relive rm`: removes traces.

use crate::message;
use anyhow::Result;
use clap::Args;
use relive_session::store::Store;
use std::path::PathBuf;

/// `relive rm`
#[derive(Debug, Args)]
#[command(after_help = "The exit status is 125 if one of them couldn't be removed; the others are gone then.")]
pub(crate) struct RmArgs {
    /// The traces: folders, or names in the trace folder
    #[arg(required_unless_present = "all", value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Remove every trace in the trace folder
    #[arg(long, conflicts_with = "traces")]
    all: bool,
}

/// Removes; goes on after a failure and says so at the end by the exit status.
pub(crate) fn run(options: &RmArgs) -> Result<u8> {
    let store = Store::from_environment()?;
    let mut status = 0;
    let resolved: Vec<_> = if options.all {
        store.list()?.into_iter().map(|entry| Ok(entry.path)).collect()
    } else {
        // Resolved before anything is removed: `latest` named twice means one trace, not two.
        options.traces.iter().map(|named| store.resolve(Some(named))).collect()
    };
    let mut removed = Vec::new();
    for path in resolved {
        let outcome = path.and_then(|path| {
            if removed.contains(&path) {
                return Ok(());
            }
            store.remove(&path)?;
            removed.push(path);
            Ok(())
        });
        if let Err(error) = outcome {
            message::say(error);
            status = crate::OWN_FAILURE;
        }
    }
    Ok(status)
}
