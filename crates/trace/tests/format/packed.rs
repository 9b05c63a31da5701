//! Packed traces: what the packer writes comes back, and no name leads out.

use relive_trace::manifest::Text;
use relive_trace::opened::{self, Malformed};
use relive_trace::packed::{Head, Index, NoHead, PackedFile, PackedLink};

fn index(files: &[&str], links: &[(&str, &str)], folders: &[&str]) -> String {
    let mut index = Index::default();
    for path in files {
        index.files.push(PackedFile { paths: vec![Text::from(path)], ..PackedFile::default() });
    }
    for (path, target) in links {
        index.links.push(PackedLink { path: Text::from(path), target: Text::from(target) });
    }
    index.folders = folders.iter().map(Text::from).collect();
    index.to_json()
}

/// What is said of an index; nothing if it is believed.
fn verdict(files: &[&str], links: &[(&str, &str)], folders: &[&str]) -> String {
    Index::parse(index(files, links, folders).as_bytes()).map_or_else(|refused| refused.to_string(), |_| String::new())
}

#[test]
fn names_that_stay_within_are_believed() {
    let links = [("/lib", "usr/lib"), ("/usr/lib/x.so", "../../usr/lib/y.so"), ("/up", "."), ("/usr/here", "..")];
    assert_eq!(verdict(&["/usr/lib/y.so", "/a\nb"], &links, &["/usr/lib", "/empty"]), "");
}

#[test]
fn names_that_could_lead_out_are_refused() {
    let name = |path: &str| format!("its index has the name {path}, which is no plain full path");
    for path in ["", "x", "/", "/..", "/a/../b", "/a//b", "/a/./b", "/a/", "/a\0b"] {
        assert_eq!(verdict(&[path], &[], &[]), name(path));
        assert_eq!(verdict(&[], &[(path, "a")], &[]), name(path));
        assert_eq!(verdict(&[], &[], &[path]), name(path));
    }
    for (path, target) in
        [("/l", ".."), ("/l", "/etc"), ("/a/l", "../../x"), ("/l", "a/../../x"), ("/l", ""), ("/l", "a//b")]
    {
        let out = format!("its index has the link {path}, which leads out of it");
        assert_eq!(verdict(&[], &[(path, target)], &[]), out, "{target}");
    }
}

#[test]
fn nothing_stands_twice_or_below_a_file_or_a_link() {
    let twice = |path: &str| format!("its index has {path} twice, or something below it");
    assert_eq!(verdict(&["/a", "/a"], &[], &[]), twice("/a"));
    assert_eq!(verdict(&["/a"], &[("/a", "b")], &[]), twice("/a"));
    assert_eq!(verdict(&["/l/x"], &[("/l", "b")], &[]), twice("/l/x"));
    assert_eq!(verdict(&[], &[("/l", "b"), ("/l/m", "c")], &[]), twice("/l/m"));
    assert_eq!(verdict(&["/a"], &[], &["/a/b"]), twice("/a/b"));
    assert_eq!(verdict(&["/a"], &[], &["/a"]), twice("/a"));
}

#[test]
fn a_changed_index_or_head_is_noticed() {
    let json = index(&["/a"], &[], &[]);
    let changed = Index::parse(json.replace("/a", "/b").as_bytes()).unwrap_err();
    assert_eq!(changed.to_string(), "its index differs from its checksum");
    assert!(Index::parse(&json.as_bytes()[..20]).is_err());
    let head = Head { packed: 7, unpacked: u64::MAX, checksum: 3 };
    let bytes = head.to_bytes();
    assert_eq!(Head::parse(&bytes), Ok(head));
    for at in 0..bytes.len() {
        let mut changed = bytes;
        changed[at] ^= 1;
        assert!(Head::parse(&changed).is_err(), "byte {at}");
    }
    let mut newer = bytes;
    newer[16] = 9;
    assert_eq!(Head::parse(&newer), Err(NoHead::Newer(9)));
}

#[test]
fn a_list_of_files_is_read_to_its_end_or_not_at_all() {
    let entry = |path: &str| [&1u64.to_le_bytes()[..], &[0; 32], path.as_bytes(), &[0]].concat();
    let block =
        |image: u32, bytes: u32, entries: &[u8]| [&image.to_le_bytes()[..], &bytes.to_le_bytes(), entries].concat();
    let two = [entry("/a"), entry("/b c")].concat();
    let list = [block(0, two.len() as u32, &two), block(3, 0, &[])].concat();
    let names: Vec<_> = opened::parse(&list).unwrap().into_iter().map(|file| file.path).collect();
    assert_eq!(names, ["/a", "/b c"].map(std::path::PathBuf::from));
    assert_eq!(opened::parse(&block(7, opened::INCOMPLETE, &[])), Err(Malformed::Incomplete(7)));
    assert_eq!(opened::parse(&list[..list.len() - 1]), Err(Malformed::Damaged(8 + two.len())));
    assert_eq!(opened::parse(&list[..46]), Err(Malformed::Damaged(0)));
    let relative = entry("a");
    assert_eq!(opened::parse(&block(0, relative.len() as u32, &relative)), Err(Malformed::Damaged(8)));
}
