"""Writes a GGUF file of random bf16 weights in the shape `1.1b` of `espalier bench kernels`, without a tokenizer."""

import sys

import gguf
import numpy

LAYERS, HIDDEN, INNER, HEADS, KEY_HEADS, VOCABULARY = 16, 2048, 8192, 32, 8, 32000
KEYS = HIDDEN // HEADS * KEY_HEADS

random = numpy.random.default_rng(1)
file = gguf.GGUFWriter(sys.argv[1], "llama")
file.add_block_count(LAYERS)
file.add_embedding_length(HIDDEN)
file.add_feed_forward_length(INNER)
file.add_head_count(HEADS)
file.add_head_count_kv(KEY_HEADS)
file.add_layer_norm_rms_eps(1e-5)
file.add_context_length(2048)
file.add_rope_dimension_count(HIDDEN // HEADS)
file.add_vocab_size(VOCABULARY)
file.add_tokenizer_model("no_vocab")


def matrix(name, outputs, inputs):
    """Numbers evenly in +-1/sqrt(inputs), cut to bf16."""
    numbers = (random.random((outputs, inputs), dtype=numpy.float32) * 2 - 1) / numpy.float32(inputs) ** 0.5
    halves = (numbers.view(numpy.uint32) >> 16).astype(numpy.uint16)
    file.add_tensor(name + ".weight", halves.view(numpy.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)


def norm(name):
    file.add_tensor(name + ".weight", numpy.ones(HIDDEN, dtype=numpy.float32))


matrix("token_embd", VOCABULARY, HIDDEN)
for layer in range(LAYERS):
    block = f"blk.{layer}."
    norm(block + "attn_norm")
    matrix(block + "attn_q", HIDDEN, HIDDEN)
    matrix(block + "attn_k", KEYS, HIDDEN)
    matrix(block + "attn_v", KEYS, HIDDEN)
    matrix(block + "attn_output", HIDDEN, HIDDEN)
    norm(block + "ffn_norm")
    matrix(block + "ffn_gate", INNER, HIDDEN)
    matrix(block + "ffn_up", INNER, HIDDEN)
    matrix(block + "ffn_down", HIDDEN, INNER)
norm("output_norm")
matrix("output", VOCABULARY, HIDDEN)
file.write_header_to_file()
file.write_kv_data_to_file()
file.write_tensors_to_file()
file.close()
