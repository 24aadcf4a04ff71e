//! What the names of a crate's modules stand for.

use std::collections::{BTreeMap, HashMap};

use syn::{Item, ItemUse, UseTree};

use crate::source::{Crate, is_test};

/// A path as it is written: `["crate", "tree", "Tree"]`.
pub(crate) type Written = Vec<String>;

/// How many re-exports a name may pass through before it is given up.
const HOPS_MAX: usize = 16;

/// The modules of a crate, by their path from its root.
pub(crate) struct Names(BTreeMap<Vec<String>, Module>);

/// One module, in a file of its own or inside another's.
#[derive(Default)]
struct Module {
    /// The file that it lies in.
    file: String,
    /// Whether it stands in braces inside another module; what a macro puts there is nobody's.
    inline: bool,
    /// One name may stand for a module and for an item.
    names: HashMap<String, Vec<Name>>,
    /// Paths of the modules whose every name is imported.
    globs: Vec<Written>,
}

/// What a name stands for in a module.
enum Name {
    Item,
    Module,
    Import(Written),
}

/// What a path leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    Module(Vec<String>),
    Item { file: String, name: String },
}

/// One path that a `use` names, and how it is called from then on; `None` stands for `*`.
pub(crate) struct Import {
    pub(crate) path: Written,
    name: Option<String>,
}

impl Names {
    pub(crate) fn of(of: &Crate) -> Self {
        let mut this = Self(BTreeMap::new());
        for file in &of.files {
            let module = Module { file: file.name.clone(), ..Module::default() };
            this.add(&file.module, module, &file.items);
        }
        this
    }

    /// Adds a module with these items, and those that stand in braces in it.
    fn add(&mut self, path: &[String], mut module: Module, items: &[Item]) {
        for item in items {
            module.learn(item);
            if let Item::Mod(inner) = item
                && let Some((_, items)) = &inner.content
                && !is_test(&inner.attrs)
            {
                let child = Module { file: module.file.clone(), inline: true, ..Module::default() };
                self.add(&[path, &[inner.ident.to_string()]].concat(), child, items);
            }
        }
        self.0.insert(path.to_vec(), module);
    }

    /// What a path leads to that is written in the module `from`; nothing if it leaves the crate.
    pub(crate) fn resolve(&self, from: &[String], written: &[String]) -> Option<Resolved> {
        self.follow(from, written, HOPS_MAX)
    }

    fn follow(&self, from: &[String], written: &[String], hops: usize) -> Option<Resolved> {
        let (mut at, rest) = start(from, written);
        for (index, name) in rest.iter().enumerate() {
            let more = index + 1 < rest.len();
            match self.look_up(&at, name, more, hops) {
                Some(Resolved::Module(path)) => at = path,
                None if rest.len() < written.len() || index > 0 => return self.unknown(&at, name),
                found => return found,
            }
        }
        Some(Resolved::Module(at))
    }

    /// What a name is that a known module must have, though it does not say so: a macro made it.
    fn unknown(&self, module: &[String], name: &str) -> Option<Resolved> {
        let module = self.0.get(module).filter(|module| !module.inline)?;
        Some(Resolved::Item { file: module.file.clone(), name: name.to_owned() })
    }

    /// What a name stands for in a module; where a path goes on after it, rather a module than an item.
    fn look_up(&self, path: &[String], name: &str, more: bool, hops: usize) -> Option<Resolved> {
        let hops = hops.checked_sub(1)?;
        let module = self.0.get(path)?;
        let meant = module.names.get(name).into_iter().flatten().filter_map(|found| match found {
            Name::Item => Some(Resolved::Item { file: module.file.clone(), name: name.to_owned() }),
            Name::Module => Some(Resolved::Module([path, &[name.to_owned()]].concat())),
            Name::Import(written) => self.follow(path, written, hops),
        });
        let mut meant: Vec<Resolved> = meant.collect();
        meant.sort_by_key(|found| matches!(found, Resolved::Module(_)) != more);
        meant.into_iter().next().or_else(|| self.look_in_globs(path, name, more, hops))
    }

    fn look_in_globs(&self, path: &[String], name: &str, more: bool, hops: usize) -> Option<Resolved> {
        self.0[path].globs.iter().find_map(|glob| match self.follow(path, glob, hops)? {
            Resolved::Module(module) => self.look_up(&module, name, more, hops),
            Resolved::Item { .. } => None,
        })
    }
}

impl Module {
    /// Takes in what an item is called.
    fn learn(&mut self, item: &Item) {
        match item {
            Item::Use(item) if !is_test(&item.attrs) => self.import(item),
            Item::Mod(item) if !is_test(&item.attrs) => self.learn_name(&item.ident, Name::Module),
            _ => {
                if let Some(ident) = name_of(item) {
                    self.learn_name(ident, Name::Item);
                }
            }
        }
    }

    fn learn_name(&mut self, ident: &syn::Ident, name: Name) {
        self.names.entry(ident.to_string()).or_default().push(name);
    }

    fn import(&mut self, item: &ItemUse) {
        for Import { path, name } in imports(item) {
            match name {
                Some(name) => self.names.entry(name).or_default().push(Name::Import(path)),
                None => self.globs.push(path),
            }
        }
    }
}

/// The module that a path begins in, and what is left of it then.
fn start<'a>(from: &[String], written: &'a [String]) -> (Vec<String>, &'a [String]) {
    let mut at = from.to_vec();
    let mut rest = written;
    while let [first, more @ ..] = rest {
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            _ => break,
        }
        rest = more;
    }
    (at, rest)
}

/// What an item is called, if it is not a module or an import.
fn name_of(item: &Item) -> Option<&syn::Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

/// The paths that a `use` names; none for one that begins with `::`, which leaves the crate.
pub(crate) fn imports(item: &ItemUse) -> Vec<Import> {
    let mut found = vec![];
    if item.leading_colon.is_none() {
        leaves(&item.tree, &[], &mut found);
    }
    found
}

fn leaves(tree: &UseTree, before: &[String], found: &mut Vec<Import>) {
    let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
    match tree {
        UseTree::Path(path) => leaves(&path.tree, &with(&path.ident), found),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, found)),
        UseTree::Glob(_) => found.push(Import { path: before.to_vec(), name: None }),
        UseTree::Rename(rename) => {
            found.push(Import { path: with(&rename.ident), name: Some(rename.rename.to_string()) });
        }
        UseTree::Name(name) if name.ident == "self" => {
            found.push(Import { path: before.to_vec(), name: before.last().cloned() });
        }
        UseTree::Name(name) => found.push(Import { path: with(&name.ident), name: Some(name.ident.to_string()) }),
    }
}
