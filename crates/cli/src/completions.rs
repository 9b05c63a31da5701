//! `relive completions` and `relive man`: made from the definitions in `args.rs`.

use crate::args::Arguments;
use crate::output;
use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::PathBuf;

/// `relive completions`
#[derive(Debug, Args)]
#[command(after_help = "Example: relive completions bash > ~/.local/share/bash-completion/completions/relive")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// `relive man`
#[derive(Debug, Args)]
#[command(after_help = "Example: relive man | man -l -")]
pub(crate) struct ManArgs {
    /// Print the page of this command
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
    /// Write the pages of all commands into this folder instead
    #[arg(short, long, value_name = "DIR", conflicts_with = "command")]
    output: Option<PathBuf>,
}

/// Prints a completion script.
pub(crate) fn completions(options: &CompletionsArgs) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "relive", &mut script);
    output::print(|out| out.write_all(&script))?;
    Ok(0)
}

/// Prints or writes manual pages.
pub(crate) fn man(options: &ManArgs) -> Result<u8> {
    let mut relive = Arguments::command();
    if let Some(folder) = &options.output {
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(relive, folder))
            .with_context(|| format!("write manual pages to {}", folder.display()))?;
        return Ok(0);
    }
    relive.build();
    let page = match &options.command {
        None => relive,
        Some(name) => relive
            .find_subcommand(name)
            .cloned()
            .with_context(|| format!("print the page of {name}: no such command; `relive help` lists them"))?,
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    output::print(|out| out.write_all(&text))?;
    Ok(0)
}
