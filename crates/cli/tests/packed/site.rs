//! A program with files of its own, and a machine that has none of them.
//!
//! Apart from the tests because it is built and recorded in several.

use crate::guest::guest_with;
use crate::timed::{RELIVE, run};
use crate::{LIMIT, text};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a program was installed.
pub(crate) struct Site {
    program: PathBuf,
    data: PathBuf,
    plugin: PathBuf,
    library: PathBuf,
    script: String,
}

impl Site {
    /// Builds it in `folder`: programs and a script in `bin`, with the link `alias`, libraries in `lib`, and data.
    pub(crate) fn build(folder: &Path) -> Self {
        for part in ["bin", "lib"] {
            fs::create_dir_all(folder.join(part)).expect("a folder");
        }
        let library = folder.join("lib/libtwice.so");
        let plugin = folder.join("lib/plugin.so");
        for (output, option) in [(&library, "-UPLUGIN"), (&plugin, "-DPLUGIN")] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/environment/packed_library.c");
            let mut compiler = Command::new("cc");
            compiler.args(["-g", "-shared", "-fPIC", option, "-o"]).arg(output).arg(source);
            run(&mut compiler, LIMIT).expect_code(0);
        }
        let linked = format!("-L{}", text(&folder.join("lib")));
        let flags = [&linked, "-ltwice", "-Wl,-rpath,$ORIGIN/../lib"];
        let program = guest_with(&folder.join("bin"), "packed", &flags);
        symlink("bin", folder.join("alias")).expect("a link");
        let data = folder.join("data");
        fs::write(&data, "hello").expect("data");
        let script = folder.join("bin/script");
        fs::write(&script, format!("#!/bin/sh -e\nexec {} \"$@\"\n", program.display())).expect("a script");
        run(Command::new("chmod").arg("+x").arg(&script), LIMIT).expect_code(0);
        let (arguments, here) =
            (format!("{} {} {}", data.display(), plugin.display(), library.display()), folder.display());
        let script = format!("{here}/alias/packed {arguments} | cat; date +%N; {here}/bin/script {arguments}");
        Self { program, data, plugin, library, script }
    }

    /// The program alone.
    pub(crate) fn program(&self) -> [&str; 4] {
        [text(&self.program), text(&self.data), text(&self.plugin), text(&self.library)]
    }

    /// A tree of processes.
    pub(crate) fn script(&self) -> &str {
        &self.script
    }
}

/// A replay of `file` in a root folder that has nothing but relive itself; `None` where such a one may not be made.
pub(crate) fn jail(root: &Path, file: &Path) -> Option<Command> {
    let own = root.join("own");
    for folder in [&own, &root.join("proc"), &root.join("dev"), &root.join("tmp")] {
        fs::create_dir_all(folder).expect("a folder");
    }
    // Its libraries, for its own loader alone: where programs look for them there are none.
    let listed = run(Command::new("ldd").arg(RELIVE), LIMIT).expect_code(0).text();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    for path in libraries.chain([RELIVE, text(file)]) {
        fs::copy(path, own.join(Path::new(path).file_name().expect("a file"))).expect("a copy");
    }
    let line = "mount --rbind /proc $0/proc && exec chroot \"$@\"";
    let relive = ["/own/ld-linux-x86-64.so.2", "--library-path", "/own", "/own/relive"];
    let enter = |arguments: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", line]).arg(root).arg(root).args(relive).args(arguments);
        command.env("XDG_CACHE_HOME", "/tmp/cache").current_dir("/");
        command
    };
    let allowed = run(&mut enter(&["--version"]), LIMIT).code == 0;
    let name = file.file_name().expect("a file");
    allowed.then(|| enter(&["replay", text(&Path::new("/own").join(name))]))
}
