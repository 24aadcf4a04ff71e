//! Why a message was refused.

use espalier_speculation::{
    ConstraintLength, DistributionError, DrawnTreeError, ExitError, SamplingError, StopStringError, Token, TreeFault,
};
use thiserror::Error;

/// A message that breaks one of the protocol's rules.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum WireError {
    /// A field that must be there is not.
    #[error("{field} is missing")]
    Missing {
        /// The field's name.
        field: &'static str,
    },
    /// A list or a text that must not be empty is.
    #[error("{field} is empty")]
    Empty {
        /// The field's name.
        field: &'static str,
    },
    /// A number below what is allowed.
    #[error("{field} is {value}, below the minimum of {min}")]
    TooSmall {
        /// The field's name.
        field: &'static str,
        /// The number.
        value: u64,
        /// The least that is allowed.
        min: u64,
    },
    /// A number, or the length of a list or text, beyond what is allowed.
    #[error("{field} is {value}, beyond the limit of {limit}")]
    TooLarge {
        /// The field's name.
        field: &'static str,
        /// The number.
        value: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// A number that stands for nothing in an enumeration.
    #[error("{field} is {value}, which means nothing")]
    Unknown {
        /// The field's name.
        field: &'static str,
        /// The number.
        value: i32,
    },
    /// A token that the vocabulary does not have.
    #[error("{field} holds token {token}, beyond the vocabulary of {vocab}")]
    Token {
        /// The field's name.
        field: &'static str,
        /// The token.
        token: Token,
        /// The vocabulary's size.
        vocab: usize,
    },
    /// A text that holds what it must not.
    #[error("{field} `{value}` is not made of letters, digits, `-` and `_` alone")]
    Name {
        /// The field's name.
        field: &'static str,
        /// The text.
        value: String,
    },
    /// A name that another one has already.
    #[error("{field} `{value}` is there twice")]
    Twice {
        /// The field's name.
        field: &'static str,
        /// The name.
        value: String,
    },
    /// A tool that there is not.
    #[error("{field} `{value}` is none of the tools")]
    NoTool {
        /// The field's name.
        field: &'static str,
        /// The tool's name.
        value: String,
    },
    /// A text that is to be a JSON object.
    #[error("{field} is no JSON object: {fault}")]
    NoObject {
        /// The field's name.
        field: &'static str,
        /// What is wrong, with line and column.
        fault: String,
    },
    /// Prompt and answer do not fit the model.
    #[error("{committed} tokens and {max_tokens} more exceed the context of {context}")]
    Context {
        /// Tokens that are there already.
        committed: usize,
        /// Tokens asked for.
        max_tokens: usize,
        /// What the model can hold.
        context: usize,
    },
    /// A message that the stream does not allow at this point.
    #[error("{found} came where {expected} was expected")]
    Order {
        /// What was expected.
        expected: &'static str,
        /// What came.
        found: &'static str,
    },
    /// An outcome whose path and tokens contradict each other.
    #[error("an outcome accepts the nodes {path:?} and commits the tokens {tokens:?}")]
    Outcome {
        /// The nodes.
        path: Vec<u32>,
        /// The tokens.
        tokens: Vec<Token>,
    },
    /// A duration that is negative, too long or not a number.
    #[error("{field} is {value_ms}, which is no duration in milliseconds")]
    Time {
        /// The field's name.
        field: &'static str,
        /// Its value, in milliseconds.
        value_ms: f64,
    },
    /// What cannot be a ratio of counts.
    #[error("{field} is {value}, which is no number from 0 on")]
    Ratio {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: f64,
    },
    /// Logprobs that do not belong to the tokens they come with.
    #[error("{found} logprobs came with {tokens} tokens")]
    Logprobs {
        /// How many came.
        found: usize,
        /// How many tokens they came with.
        tokens: usize,
    },
    /// A number that is no logarithm of a probability.
    #[error("logprob {value} is no logarithm of a probability")]
    Logprob {
        /// The number.
        value: f64,
    },
    /// What children were drawn from has tokens without probabilities, or the other way round.
    #[error("the children of node {node} were drawn from {tokens} tokens with {probs} probabilities")]
    DrawnLengths {
        /// The node whose children were drawn; 0 is the root.
        node: usize,
        /// How many tokens came.
        tokens: usize,
        /// How many probabilities came.
        probs: usize,
    },
    /// The children of one node were drawn twice.
    #[error("node {node} came with two draft distributions")]
    DrawnTwice {
        /// The node; 0 is the root.
        node: usize,
    },
    /// What children were drawn from is no distribution.
    #[error("the children of node {node} were not drawn from a distribution: {fault}")]
    Distribution {
        /// The node whose children were drawn; 0 is the root.
        node: usize,
        /// Why.
        fault: DistributionError,
    },
    /// Hidden states of another width.
    #[error("hidden states are {found} wide where {expected} were expected")]
    StatesWidth {
        /// Their width.
        found: usize,
        /// The width of the model or of the states before.
        expected: usize,
    },
    /// Hidden states of other positions than the next.
    #[error("the hidden states of position {found} came where those of {expected} were expected")]
    StatesOrder {
        /// The first position that came.
        found: usize,
        /// The first position that was expected.
        expected: usize,
    },
    /// Bytes that are not whole hidden states.
    #[error("{bytes} bytes are no hidden states of {width} numbers each")]
    StatesBytes {
        /// How many bytes came.
        bytes: usize,
        /// Numbers of a state.
        width: usize,
    },
    /// A hidden state that is not finite.
    #[error("the hidden state of position {position} holds {value}")]
    State {
        /// Its position.
        position: usize,
        /// What it holds.
        value: f32,
    },
    /// Stop strings that are none.
    #[error(transparent)]
    StopStrings(#[from] StopStringError),
    /// Thresholds of exits that no drafter can have.
    #[error(transparent)]
    Exits(#[from] ExitError),
    /// A constraint that is empty or too long.
    #[error(transparent)]
    Constraint(#[from] ConstraintLength),
    /// Sampling parameters out of range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// A tree that is none.
    #[error(transparent)]
    Tree(#[from] TreeFault),
    /// A tree that cannot have been drawn.
    #[error(transparent)]
    Drawn(#[from] DrawnTreeError),
}
