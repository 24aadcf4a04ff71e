//! The sources of the workspace's crates, parsed; what is under `#[cfg(test)]` is left out.

use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::MetadataCommand;
use quote::ToTokens;
use syn::{Attribute, Item, ItemMod};

/// A library or program of the workspace.
pub(crate) struct Crate {
    /// The folder of its package, from that of the workspace.
    pub(crate) name: String,
    /// The folder of its sources, which its files' names are relative to.
    folder: PathBuf,
    /// Its files, the root first.
    pub(crate) files: Vec<File>,
}

/// One file of a crate.
pub(crate) struct File {
    /// Its path from the crate's sources, without the ending.
    pub(crate) name: String,
    /// The path of the module that it holds, from the crate's root.
    pub(crate) module: Vec<String>,
    pub(crate) text: String,
    pub(crate) items: Vec<Item>,
}

impl Crate {
    /// How a file is named in messages.
    pub(crate) fn path_of(&self, file: &File) -> String {
        format!("{}/{}", self.name, file.name)
    }

    /// Reads the crate whose root is the file `root`.
    fn read(name: &str, root: &Path) -> Self {
        let folder = root.parent().unwrap().to_owned();
        let mut this = Self { name: name.to_owned(), files: vec![], folder: folder.clone() };
        this.add(root, &folder, &[]);
        this
    }

    /// Adds the file at `path`, whose own modules lie in `folder`, and the files of those.
    fn add(&mut self, path: &Path, folder: &Path, module: &[String]) {
        let text = fs::read_to_string(path).unwrap();
        let name = path.with_extension("").strip_prefix(&self.folder).unwrap().display().to_string();
        let file = File::parse(name, module, text);
        let children: Vec<String> = file.children().collect();
        self.files.push(file);
        for child in children {
            let folder = folder.join(&child);
            let flat = folder.with_extension("rs");
            let path = if flat.exists() { flat } else { folder.join("mod.rs") };
            self.add(&path, &folder, &[module, &[child]].concat());
        }
    }
}

impl File {
    fn parse(name: String, module: &[String], text: String) -> Self {
        let items = syn::parse_file(&text).unwrap_or_else(|error| panic!("{name}: {error}")).items;
        Self { name, module: module.to_vec(), text, items }
    }

    /// The modules that lie in files of their own.
    fn children(&self) -> impl Iterator<Item = String> {
        self.items.iter().filter_map(|item| match item {
            Item::Mod(ItemMod { attrs, ident, content: None, .. }) if !is_test(attrs) => Some(ident.to_string()),
            _ => None,
        })
    }
}

/// Whether what has these attributes is compiled for tests alone.
pub(crate) fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attribute| attribute.meta.to_token_stream().to_string() == "cfg (test)")
}

/// Every library and program below the workspace's folder.
pub(crate) fn workspace(folder: &Path) -> Vec<Crate> {
    let mut command = MetadataCommand::new();
    command.manifest_path(folder.join("Cargo.toml")).no_deps();
    let metadata = command.exec().unwrap();
    let sources = metadata.packages.iter().flat_map(|package| {
        let sources = package.targets.iter().filter(|target| target.is_lib() || target.is_bin());
        let folder = package.manifest_path.parent().unwrap().strip_prefix(&metadata.workspace_root).unwrap();
        sources.map(move |target| Crate::read(folder.as_str(), target.src_path.as_std_path()))
    });
    sources.collect()
}

/// A crate of files that are given by name and text, the root first.
pub(crate) fn toy(files: &[(&str, &str)]) -> Crate {
    let parse = |(index, &(name, text)): (usize, &(&str, &str))| {
        let module: &[String] = if index == 0 { &[] } else { &[name.to_owned()] };
        File::parse(name.to_owned(), module, text.to_owned())
    };
    let files = files.iter().enumerate().map(parse).collect();
    Crate { name: "toy".to_owned(), folder: PathBuf::new(), files }
}
