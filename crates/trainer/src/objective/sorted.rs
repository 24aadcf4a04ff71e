//! `sorted`: the first layers of a target with several exits (S2D, §3), which may have targets for teachers.

use std::path::Path;

use espalier_model::{Checkpoint, ModelError};
use serde_json::json;

use super::{Exit, Frozen, Goal, Objective, Prediction, Product, Setting};
use crate::data::Batch;
use crate::error::{Result, TrainError, in_range};
use crate::files;
use crate::nn::{Llama, Params, Start, check_length};
use crate::output::config;
use crate::place::Place;
use crate::random::Draws;
use crate::recipe::SortedMethod;
use crate::target::check_tokenizer;

/// A model whose exits share one norm and one head: the mean over exits of the loss.
pub(super) struct Sorted {
    params: Params,
    model: Llama,
    exits: Vec<usize>,
    teachers: Teachers,
    product: Product,
}

impl Sorted {
    pub(super) fn open(method: &SortedMethod, setting: &Setting) -> Result<Self> {
        let SortedMethod { init, layers, exits, .. } = method;
        let checkpoint = Checkpoint::open(init)?;
        let available = checkpoint.config.layers;
        if *layers > available {
            return Err(ModelError::Layers { asked: *layers, available }.into());
        }
        check_length(&checkpoint.config, setting.length)?;
        let mut params = Params::new(setting.dtype, &setting.place);
        let model = Llama::build(&checkpoint.config, *layers, &mut params, Start::Copy(&checkpoint.weights()?))?;
        let mut config = config::read(init)?;
        config::cut_layers(&mut config, *layers);
        config["espalier_exits"] = json!(exits);
        let mut about = vec![
            ("first weights".to_owned(), format!("the first {layers} of {available} layers of {}", checkpoint.name())),
            ("exits after layers".to_owned(), format!("{exits:?}")),
        ];
        about.extend(about_teachers(method));
        let teachers = Teachers::open(method, checkpoint.config.vocab, setting)?;
        Ok(Self { params, model, exits: exits.clone(), teachers, product: Product { config, about } })
    }
}

/// The targets that teach, and how much they count.
struct Teachers {
    targets: Vec<Frozen>,
    weight: f64,
    vocab: usize,
    place: Place,
}

impl Teachers {
    /// Loads the teachers of a drafter with `vocab` tokens.
    fn open(method: &SortedMethod, vocab: usize, setting: &Setting) -> Result<Self> {
        let open = |folder: &Path| {
            check_tokenizer(folder, &method.init)?;
            let checkpoint = Checkpoint::open(folder)?;
            let config = &checkpoint.config;
            if config.vocab != vocab {
                return Err(TrainError::Teacher { folder: folder.to_owned(), found: config.vocab, expected: vocab });
            }
            in_range("the length of a row", setting.length as f64, 1.0, config.context as f64)?;
            Frozen::load(&checkpoint, None, setting)
        };
        let targets = method.teachers.iter().map(|folder| open(folder)).collect::<Result<_>>()?;
        Ok(Self { targets, weight: method.teacher_weight, vocab, place: setting.place.clone() })
    }

    /// What should be said: the text's next token, or a mix of it and what the teachers say.
    fn goal(&self, batch: &Batch) -> Result<Goal> {
        let labels = batch.labels();
        if self.targets.is_empty() {
            return Goal::of_tokens(labels.to_vec(), &self.place);
        }
        let counted: Vec<bool> = labels.iter().map(Option::is_some).collect();
        let mut goal = Goal::of_tokens_in_part(labels, self.vocab, 1.0 - self.weight, &self.place)?;
        for target in &self.targets {
            goal.add(target.teach(batch, 1, &counted)?.goal, self.weight / self.targets.len() as f64)?;
        }
        Ok(goal)
    }
}

/// What the model card says of the teachers, if there are any.
fn about_teachers(method: &SortedMethod) -> Vec<(String, String)> {
    if method.teachers.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = method.teachers.iter().map(|folder| files::name(folder)).collect();
    let share = format!("{} % of it is the divergence from the teachers", method.teacher_weight * 100.0);
    vec![("teachers".to_owned(), names.join(", ")), ("loss".to_owned(), share)]
}

impl Objective for Sorted {
    fn params(&self) -> &Params {
        &self.params
    }

    fn predict(&self, batch: &Batch, _draws: Draws) -> Result<Prediction> {
        let logits = self.model.logits_at(batch, &self.exits)?;
        let name = |(exit, logits)| Exit { name: format!("exit after layer {exit}"), logits };
        let exits = self.exits.iter().zip(logits).map(name).collect();
        Ok(Prediction { exits, goal: self.teachers.goal(batch)?.into() })
    }

    fn product(&self) -> &Product {
        &self.product
    }
}
