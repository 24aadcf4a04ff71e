//! What threads share: the outputs of a layer, or its rows.
//!
//! Where they share outputs, each thread reads its part of the weights, and needs what the others have just made of every
//! row. Where each has rows of its own, all of them read all weights, and only keys and values go from one to another. So
//! rows are shared where what a layer makes of them takes longer to come from another thread than its weights take to be
//! read by all threads, which have one memory.

use super::Layer;
use crate::kernels::Kernels;

/// Bytes of weights that all threads together read while one byte comes to a thread that another has just written: measured
/// with two threads, where both ways take the same time (docs/benchmarks.md, "Rows of a thread").
const READS_OF_EXCHANGE: usize = 48;

/// Whether so many threads share the rows of a layer.
pub(super) fn shares_rows(layer: &Layer, kernels: &Kernels, rows: usize, threads: usize) -> bool {
    let enough = rows >= threads * layer.input.map.rows_worth_a_thread(kernels);
    threads > 1 && enough && layer.made_of_row(kernels) * rows * READS_OF_EXCHANGE >= layer.bytes() * threads
}

impl Layer {
    /// Bytes that it makes of a row: what is added to the stream twice, queries, keys and values, and inputs of all its
    /// linear layers.
    fn made_of_row(&self, kernels: &Kernels) -> usize {
        let Self { input, output, mlp, .. } = self;
        let floats = 2 * output.weight.outputs() + input.map.outputs();
        let inputs =
            [&input.map, &output.weight, mlp.inner(), &mlp.down().weight].map(|linear| linear.bytes_of_input(kernels));
        floats * size_of::<f32>() + inputs.iter().sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::arithmetic::Arithmetic;
    use crate::config::ModelConfig;
    use crate::decoder::Decoder;
    use crate::kv_cache::KvCache;
    use crate::load_options::LoadOptions;
    use crate::rows::{Asked, Logits, Row, Segment};
    use crate::workspace::Workspace;

    /// A model whose layers are so wide.
    fn decoder([hidden, ffn]: [usize; 2], arithmetic: Arithmetic) -> Decoder {
        let config = format!(
            r#"{{"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": {hidden}, "intermediate_size": {ffn},
            "vocab_size": 300, "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": true}}"#
        );
        let options = LoadOptions { arithmetic, ..LoadOptions::default() };
        Decoder::random(&ModelConfig::parse(&config, None).unwrap(), 1, &options, |_, _| {}).unwrap()
    }

    const SMALL: [usize; 2] = [96, 160];

    /// The logits of a tree and a chain after texts of their own, in one pass.
    fn of_two(decoder: &Decoder, work: &mut Workspace) -> Vec<u32> {
        let mut pass = |caches: &mut [KvCache; 2], [first, second]: [&[Row]; 2]| {
            let [a, b] = caches;
            let segment = |cache, rows| Segment { cache, rows, logits: Logits::All };
            let mut segments = [segment(a, first), segment(b, second)];
            let output = decoder.forward(work, &mut segments, Asked::default()).unwrap();
            let rows = [(0, first.len()), (1, second.len())];
            let all = rows.iter().flat_map(|&(segment, rows)| (0..rows).map(move |row| (segment, row)));
            all.flat_map(|(segment, row)| output.logits(segment, row)).map(|logit| logit.to_bits()).collect::<Vec<_>>()
        };
        let mut caches = [decoder.new_cache(), decoder.new_cache()];
        let (long, short): (Vec<u32>, Vec<u32>) = ((0..40).collect(), (7..10).collect());
        pass(&mut caches, [&Row::chain(&long, 0), &Row::chain(&short, 0)]);
        caches
            .iter_mut()
            .zip([40, 3])
            .for_each(|(cache, rows)| cache.keep_path(&(0..rows).collect::<Vec<_>>()).unwrap());
        let tree: Vec<Row> =
            (0..93).map(|i| Row { token: 3 * i as u32, parent: (i as usize).checked_sub(1).map(|i| i / 3) }).collect();
        pass(&mut caches, [&tree, &Row::chain(&short, 0)])
    }

    #[test]
    fn rows_of_a_thread_have_the_bits_of_rows_of_all() {
        for arithmetic in Arithmetic::ALL {
            let decoder = decoder(SMALL, arithmetic);
            let mut alone = Workspace::new(1);
            let expected = of_two(&decoder, &mut alone);
            assert!(alone.per_thread.is_empty());
            for threads in [2, 3] {
                let mut work = Workspace::new(threads);
                assert!(of_two(&decoder, &mut work) == expected, "{arithmetic}, {threads} threads");
                // Fewer threads than were asked for may have been had.
                assert_eq!(work.per_thread.len(), work.threads(), "{arithmetic}");
            }
        }
    }

    /// Threads that had rows of their own in a pass over so many.
    fn threads_with_rows(decoder: &Decoder, rows: usize) -> usize {
        let (mut work, mut cache) = (Workspace::new(2), decoder.new_cache());
        let rows = Row::chain(&vec![7; rows], 0);
        let segment = Segment { cache: &mut cache, rows: &rows, logits: Logits::All };
        decoder.forward(&mut work, &mut [segment], Asked::default()).unwrap();
        work.per_thread.len()
    }

    #[test]
    fn few_rows_share_outputs_and_more_of_them_the_larger_a_layer_is() {
        let (small, large) = (decoder(SMALL, Arithmetic::F32), decoder([512, 2048], Arithmetic::F32));
        assert_eq!([11, 12].map(|rows| threads_with_rows(&small, rows)), [0, 2]);
        assert_eq!([13, 20].map(|rows| threads_with_rows(&large, rows)), [0, 2]);
    }
}
