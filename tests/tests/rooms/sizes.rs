//! How long files and functions are, and which functions take tuples apart.

use std::fmt;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, FnArg, ImplItemFn, Item, ItemFn, Pat, Signature, TraitItemFn};

use crate::source::{Crate, File, is_test};
use crate::uses::attributes;

/// A function and how long it is.
pub(crate) struct Function {
    name: String,
    /// From its signature to its closing brace.
    pub(crate) lines: usize,
    takes_tuple_apart: bool,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {} lines", self.name, self.lines)
    }
}

/// How many lines a file has before its tests, which come last.
pub(crate) fn lines_before_tests(file: &File) -> usize {
    let tests = file.items.iter().find(|item| matches!(item, Item::Mod(_)) && is_test(attributes(item)));
    tests.map_or(file.text.lines().count(), |tests| tests.span().start().line - 1)
}

/// Every function of a crate that has a body.
pub(crate) fn functions(of: &Crate) -> impl Iterator<Item = Function> {
    of.files.iter().flat_map(|file| {
        let mut reader = Reader { path: of.path_of(file), found: vec![] };
        file.items.iter().for_each(|item| reader.visit_item(item));
        reader.found
    })
}

/// The functions with a parameter that is a tuple taken apart.
pub(crate) fn tuple_parameters(of: &Crate) -> Vec<String> {
    functions(of).filter(|function| function.takes_tuple_apart).map(|function| function.name).collect()
}

struct Reader {
    path: String,
    found: Vec<Function>,
}

impl Reader {
    fn take(&mut self, signature: &Signature, block: &Block) {
        let lines = lines_from(signature.span(), block.span());
        let takes_tuple_apart = signature.inputs.iter().any(is_tuple);
        self.found.push(Function { name: format!("{}: {}", self.path, signature.ident), lines, takes_tuple_apart });
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.take(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_test(&function.attrs) {
            self.take(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.take(&function.sig, block);
        }
    }
}

fn lines_from(first: Span, last: Span) -> usize {
    last.end().line - first.start().line + 1
}

fn is_tuple(argument: &FnArg) -> bool {
    let FnArg::Typed(typed) = argument else { return false };
    match &*typed.pat {
        Pat::Tuple(_) => true,
        Pat::Reference(reference) => matches!(*reference.pat, Pat::Tuple(_)),
        _ => false,
    }
}
