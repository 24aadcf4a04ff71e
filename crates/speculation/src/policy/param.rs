//! Parameters of policies: declared once, and from that parsed, validated, shown and read.

use std::fmt::{self, Display, Formatter};

/// One parameter of a policy.
#[derive(Debug, PartialEq)]
pub(super) struct Param {
    /// Its name in `name,key=value`.
    pub(super) key: &'static str,
    /// What it means, for the help text.
    pub(super) about: &'static str,
    /// Its default; `None` is `auto`.
    pub(super) default: Option<f64>,
    /// Least and greatest value.
    pub(super) range: (f64, f64),
    /// Whether it counts something.
    pub(super) whole: bool,
    /// Whether it may be `auto`: measured.
    pub(super) measurable: bool,
}

impl Param {
    /// A whole number.
    pub(super) const fn count(key: &'static str, default: u32, range: (u32, u32), about: &'static str) -> Self {
        Self {
            key,
            about,
            default: Some(default as f64),
            range: (range.0 as f64, range.1 as f64),
            whole: true,
            measurable: false,
        }
    }

    /// A real number.
    pub(super) const fn real(key: &'static str, default: f64, range: (f64, f64), about: &'static str) -> Self {
        Self { key, about, default: Some(default), range, whole: false, measurable: false }
    }

    /// The same parameter, but `auto` may be given for it.
    pub(super) const fn or_auto(self) -> Self {
        Self { measurable: true, ..self }
    }

    /// The same parameter, `auto` by default.
    pub(super) const fn auto(self) -> Self {
        Self { default: None, measurable: true, ..self }
    }

    /// Its line of the help text.
    pub(super) fn help(&self) -> String {
        format!("    {}={}: {} ({self})", self.key, Value(self.default), self.about)
    }

    /// The value that `text` names; `None` if it names none that is allowed.
    pub(super) fn parse(&self, text: &str) -> Option<Value> {
        if text == AUTO && self.measurable {
            return Some(Value(None));
        }
        let number: f64 = text.parse().ok()?;
        let in_range = (self.range.0..=self.range.1).contains(&number);
        (in_range && !(self.whole && number.fract() != 0.0)).then_some(Value(Some(number)))
    }
}

/// How a measured value is asked for.
const AUTO: &str = "auto";

/// What [`Param::parse`] accepts, in words.
impl Display for Param {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = if self.whole { "a whole number" } else { "a number" };
        let (least, greatest) = self.range;
        write!(f, "{kind} from {least} to {greatest}")?;
        if self.measurable {
            write!(f, " or {AUTO}")?;
        }
        Ok(())
    }
}

/// A parameter's value; `None` is `auto`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Value(pub(super) Option<f64>);

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => f.write_str(&written(number)),
            None => f.write_str(AUTO),
        }
    }
}

/// The longest number that is written with all its zeros.
const PLAIN_MAX: usize = 8;

/// A number as short as it can be, so that a policy that was read from a text of some length is one again.
fn written(number: f64) -> String {
    let (plain, scientific) = (number.to_string(), format!("{number:e}"));
    if plain.len() <= PLAIN_MAX.max(scientific.len()) { plain } else { scientific }
}

/// A parameter that may be set, by the key that names it.
pub(super) struct Slot<'a> {
    pub(super) key: String,
    pub(super) param: &'static Param,
    pub(super) value: &'a mut Value,
}

/// The values of all parameters of one policy, in the order of their declaration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Values {
    params: &'static [Param],
    values: Vec<Value>,
}

impl Values {
    /// Every parameter at its default.
    pub(super) fn defaults(params: &'static [Param]) -> Self {
        Self { params, values: params.iter().map(|param| Value(param.default)).collect() }
    }

    /// Each parameter with its value, in the order of their declaration.
    pub(super) fn slots(&mut self) -> impl Iterator<Item = (&'static Param, &mut Value)> {
        self.params.iter().zip(&mut self.values)
    }

    /// The same values, but that of `param` is `other`'s.
    pub(super) fn sharing(mut self, param: &Param, other: &Self) -> Self {
        let shared = Value(other.measurable(param));
        self.slots().filter(|(own, _)| own.key == param.key).for_each(|(_, value)| *value = shared);
        self
    }

    /// The parameters that are not at their default.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let all = self.params.iter().zip(&self.values);
        all.filter(|(param, value)| param.default != value.0).map(|(param, &value)| (param.key, value))
    }

    /// The value of `param`, `None` for `auto`.
    pub(super) fn measurable(&self, param: &Param) -> Option<f64> {
        let index = self.params.iter().position(|other| other.key == param.key);
        index.map_or(param.default, |index| self.values[index].0)
    }

    /// The value of a real `param`.
    pub(super) fn real(&self, param: &Param) -> f64 {
        self.measurable(param).unwrap_or(param.range.0)
    }

    /// The value of a whole `param`.
    pub(super) fn count(&self, param: &Param) -> usize {
        self.real(param) as usize
    }
}
