//! Every path that the modules of a file name.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemMod, ItemUse, Macro, Meta, Path, VisRestricted, Visibility};

use crate::names::{Written, imports};
use crate::source::{File, is_test};

/// A path, and the module that it is written in.
pub(crate) struct Use {
    pub(crate) module: Vec<String>,
    pub(crate) path: Written,
}

/// All paths of a file; re-exports are none, for they count where what they name is used.
pub(crate) fn uses_of(file: &File) -> Vec<Use> {
    let mut reader = Reader { module: file.module.clone(), found: vec![] };
    file.items.iter().for_each(|item| reader.visit_item(item));
    reader.found
}

struct Reader {
    module: Vec<String>,
    found: Vec<Use>,
}

impl Reader {
    fn take(&mut self, path: Written) {
        self.found.push(Use { module: self.module.clone(), path });
    }

    /// Takes what looks like a path in tokens that nobody parses: those of macros and attributes.
    fn take_tokens(&mut self, tokens: TokenStream) {
        let mut path = Written::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.take_path_of_tokens(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.take_tokens(group.stream());
                    colons = 0;
                }
                _ => colons = 0,
            }
        }
        self.take_path_of_tokens(&mut path);
    }

    /// Takes a path of several names; one name alone may be anything, and its import counts already.
    fn take_path_of_tokens(&mut self, path: &mut Written) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.take(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if matches!(item.vis, Visibility::Inherited) {
            imports(item).into_iter().for_each(|import| self.take(import.path));
        }
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            self.take(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.take_tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.take_tokens(list.tokens.clone());
        }
    }

    /// Where something may be seen is no use of that place.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}
}

/// The attributes of an item that can stand under `#[cfg(test)]`.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
