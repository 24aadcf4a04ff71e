//! A model's tensors by their checkpoint names, and where their first values come from.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor, Var};
use espalier_model::Weights;

use crate::error::Result;
use crate::place::Place;
use crate::random::{Draws, Purpose, hash};

/// The standard deviation of random matrices (`initializer_range` of Hugging Face's Llama).
const DEVIATION: f64 = 0.02;

/// The tensors of a model in training.
#[derive(Debug)]
pub(crate) struct Params {
    trained: BTreeMap<String, Var>,
    /// Saved with the others, but never changed.
    frozen: BTreeMap<String, Tensor>,
    /// Whether any is trained.
    learns: bool,
    pub(crate) dtype: DType,
    pub(crate) place: Place,
}

impl Params {
    /// None yet; all will be of this type, at this place.
    pub(crate) fn new(dtype: DType, place: &Place) -> Self {
        Self { trained: BTreeMap::new(), frozen: BTreeMap::new(), learns: true, dtype, place: place.clone() }
    }

    /// The same for a model that stays as it is: no operation on its tensors is kept for gradients.
    pub(crate) fn frozen(dtype: DType, place: &Place) -> Self {
        Self { learns: false, ..Self::new(dtype, place) }
    }

    /// The trained tensors, by name.
    pub(crate) fn trained(&self) -> impl Iterator<Item = (&str, &Var)> {
        self.trained.iter().map(|(name, var)| (name.as_str(), var))
    }

    /// All tensors, by name, trained or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        let frozen = self.frozen.iter().map(|(name, tensor)| (name.as_str(), tensor));
        self.trained().map(|(name, var)| (name, var.as_tensor())).chain(frozen)
    }

    /// Adds a tensor. What is returned shares a trained tensor's memory and sees every update.
    fn add(&mut self, name: String, value: &Tensor, trained: bool) -> Result<Tensor> {
        let value = value.to_dtype(self.dtype)?.to_device(self.place.device())?;
        if !trained || !self.learns {
            self.frozen.insert(name, value.clone());
            return Ok(value);
        }
        let var = Var::from_tensor(&value)?;
        let tensor = var.as_tensor().clone();
        self.trained.insert(name, var);
        Ok(tensor)
    }
}

/// Where the first values of some tensors come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start<'a> {
    /// Matrices are normal with a small deviation, norms 1, biases 0.
    Random { seed: u64 },
    /// From the tensors of a checkpoint.
    Copy(&'a Weights),
}

/// A part of a model: its tensors' names begin alike, and their first values come from one place.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    params: &'a mut Params,
    prefix: String,
    /// How the names begin where the values come from.
    source: String,
    start: Start<'a>,
    trained: bool,
}

impl<'a> Scope<'a> {
    /// Tensors named `prefix`… that will be trained.
    pub(crate) fn new(params: &'a mut Params, prefix: impl Into<String>, start: Start<'a>) -> Self {
        let prefix = prefix.into();
        Self { params, source: prefix.clone(), prefix, start, trained: true }
    }

    /// The same with first values from the tensors named `source`….
    pub(crate) fn reading(self, source: impl Into<String>) -> Self {
        Self { source: source.into(), ..self }
    }

    /// The same, trained or not.
    pub(crate) fn trained(self, trained: bool) -> Self {
        Self { trained, ..self }
    }

    /// A matrix, or the bias of one when `shape` has one dimension.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.tensor_from(name, name, shape)
    }

    /// The same, with first values from the tensor `source` of a checkpoint.
    pub(crate) fn tensor_from(&mut self, name: &str, source: &str, shape: &[usize]) -> Result<Tensor> {
        let value = match self.start {
            Start::Random { seed } => random(&format!("{}{name}", self.prefix), shape, seed)?,
            Start::Copy(weights) => weights.tensor(&format!("{}{source}", self.source), shape)?,
        };
        self.add(name, &value)
    }

    /// The weight of a norm.
    pub(crate) fn norm(&mut self, name: &str, width: usize) -> Result<Tensor> {
        let value = match self.start {
            Start::Random { .. } => Tensor::ones(width, DType::F32, &Device::Cpu)?,
            Start::Copy(weights) => weights.tensor(&format!("{}{name}", self.source), &[width])?,
        };
        self.add(name, &value)
    }

    fn add(&mut self, name: &str, value: &Tensor) -> Result<Tensor> {
        self.params.add(format!("{}{name}", self.prefix), value, self.trained)
    }
}

/// A normal matrix, or a bias of zeros: a function of its name and the seed.
fn random(name: &str, shape: &[usize], seed: u64) -> Result<Tensor> {
    if shape.len() == 1 {
        return Ok(Tensor::zeros(shape, DType::F32, &Device::Cpu)?);
    }
    let mut draws = Draws::new(seed, Purpose::Weights, hash(name));
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| (draws.normal() * DEVIATION) as f32).collect();
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
}
