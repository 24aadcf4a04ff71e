# Lists the recipes.
default:
    @just --list --unsorted

# Formats all code.
fmt:
    cargo fmt --all

# Checks the formatting and runs clippy; a warning is an error.
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Runs all tests, or those that cargo's arguments select.
test *args:
    cargo test --workspace {{ args }}

# Compares all kernel tables on an emulated processor with AVX-512 VNNI and AMX: minutes, the first time half an hour.
[positional-arguments]
emulate *commands:
    tests/emulation/run "$@"

# Compares them on emulated ARM processors: minutes, the first time half an hour.
[positional-arguments]
emulate-arm *args:
    tests/emulation/arm "$@"

# Builds the documentation of our own crates; a warning is an error.
doc *args:
    RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps {{ args }}

# Builds the documentation as a book into target/book/html, and checks every link in it: seconds, the first time minutes.
book:
    docs/book/build

# Writes the pages that are made of definitions: the configuration and the protocol.
reference:
    ESPALIER_BLESS=1 cargo test -p espalier --bin espalier reference
    ESPALIER_BLESS=1 cargo test -p espalier-proto --test documented

# Checks licences, advisories and sources of all dependencies (needs cargo-deny).
deny:
    cargo deny check

# Runs what continuous integration runs.
ci:
    .ci/run

# Shows two targets served by one drafter, against plain decoding.
demo:
    cargo run --release

# Keeps a whole system up, with the arguments of `espalier serve`.
serve *args:
    cargo run --release -- serve {{ args }}

# Measures one forward pass over 1 to 64 tokens, next to what the machine allows.
bench-kernels *args:
    cargo run --release -- bench kernels {{ args }}

# Measures llama.cpp beside this tree on the same weights, in turns: 10 minutes, the first time half an hour more.
[positional-arguments]
peers *args:
    tests/peers/run "$@"

# Builds services and command line for NVIDIA GPUs into target/cuda/build; it takes no GPU, but downloads CUDA's compiler.
[positional-arguments]
cuda-build *args:
    deploy/cuda/build "$@"

# Checks the code that only GPUs run, without a GPU or CUDA's compiler: a minute.
cuda-typecheck:
    deploy/cuda/typecheck

# Runs what GPUs run on the processor, thread by thread: 4 minutes. It takes a C++ compiler.
cuda-emulate:
    cargo test -p espalier-model --features emulated --lib --test fused --test fused_ranks

# Checks what `just cuda-build` made on a GPU and measures it, or on the processor with `candle`: 8 minutes at most.
gpu-check device="cuda" report="target/gpu-check.md":
    deploy/cuda/check {{ device }} {{ report }}

# Makes a large target of the text in a folder (GSM8K's train.jsonl and test.jsonl), drafters for it, and measures all.
train-large text device="cuda" report="target/large/report.md":
    deploy/cuda/train-large {{ text }} {{ device }} {{ report }}

# Checks the Helm chart with Helm 3 and 4, schemas and policies, Dockerfiles and alert rules: 3 minutes, or only STEPS.
[positional-arguments]
deploy-test *steps:
    deploy/tests/run "$@"

# Has OpenAI's packages for Python and Node, and LangChain, ask a running system.
openai-test:
    cargo build
    tests/openai/run

# Has a headless Chromium use the playground; screenshots are in target/browser.
browser-test:
    cargo build
    tests/browser/run

# Checks the package for Python: types, style, a wheel that asks a running system; a minute after the build.
[positional-arguments]
python-test *args:
    cargo build -p espalier -p espalier-gateway
    clients/python/test "${CARGO_TARGET_DIR:-target}/debug/espalier" "$@"

# Has the examples in Go and TypeScript ask a running system.
examples-test:
    cargo build
    clients/examples/run

# Builds the container images without a container engine: as root on Debian 12; half a minute after the programs.
[positional-arguments]
images *args:
    deploy/images/build "$@"

# Tries the chart under load on a real Kubernetes cluster of one node: 6 minutes, the first time 20 more; as root.
[positional-arguments]
cluster-test *args:
    deploy/cluster/test "$@"

# Measures speculative against plain decoding through gRPC, on prompts of a JSONL file.
bench-decode prompts="models/medium/greedy.jsonl" *args:
    cargo run --release -- bench decode --prompts {{ prompts }} {{ args }}

# Measures this tree against the commit BASE, both built here, in turns: 10 to 30 minutes after the builds.
perf base turns="9" prompts="models/medium/greedy.jsonl" *args:
    #!/usr/bin/env bash
    set -euo pipefail
    commit=$(git rev-parse --verify "{{ base }}^{commit}")
    # One tree for every base, and a folder of its own to build it in: cargo takes a file of one tree for that of another
    # if both are at the same place in their trees and it is the older one.
    tree=target/perf/tree
    git worktree prune
    [ -e "$tree" ] || git worktree add --detach "$tree" "$commit"
    git -C "$tree" checkout --quiet --detach "$commit"
    build() {
        cargo install --locked --force --no-track --path "$1/crates/cli" --root "target/perf/$2" --target-dir "$3"
    }
    build "$tree" base target/perf/build
    build . new "${CARGO_TARGET_DIR:-$PWD/target}"
    target/perf/new/bin/espalier bench perf target/perf/base/bin/espalier --turns {{ turns }} \
        --prompts {{ prompts }} --models models --profiles models/profiles.json {{ args }}

# Sends 10 000 sequences, most of which are cut off, and sees to it that nothing of them is left.
soak prompts="models/small/greedy.jsonl" *args:
    cargo run --release -- bench soak --prompts {{ prompts }} {{ args }}

# Kills, stops and cuts off processes of a whole system, one a second, under 500 answers: 6 minutes after the build.
chaos *args:
    cargo build --release -p espalier-verifier -p espalier-drafter -p espalier-gateway
    cargo run -p espalier-tests --bin espalier-chaos -- --programs target/release {{ args }}

# Measures a client that behaves well beside stalled readers, silent connections and prompts that are given up: 3 minutes.
crowd *args:
    cargo build --release -p espalier-verifier -p espalier-gateway
    cargo run -p espalier-tests --bin espalier-crowd -- --programs target/release {{ args }}

# Measures what TLS costs: the same load in the clear and with every connection under TLS, in turns: 3 minutes.
tls-cost *args:
    cargo build --release -p espalier-verifier -p espalier-drafter -p espalier-gateway
    cargo run -p espalier-tests --bin espalier-cost -- tls --programs target/release {{ args }}

# Measures what telemetry costs, as `tls-cost` does: scraped every second, metrics and a twentieth of all requests sent.
telemetry-cost *args:
    cargo build --release -p espalier-verifier -p espalier-drafter -p espalier-gateway
    cargo run -p espalier-tests --bin espalier-cost -- telemetry --programs target/release {{ args }}

# Measures what HTTP costs beside gRPC, in the same way.
http-cost *args:
    cargo build --release -p espalier-verifier -p espalier-drafter -p espalier-gateway
    cargo run --release -p espalier-tests --bin espalier-cost -- http --programs target/release {{ args }}

# Holds 500 texts to 20 schemas, 5 regular expressions and 3 grammars, and measures them beside others: 10 minutes.
constrained *args:
    cargo run --release -p espalier-tests --bin espalier-constrained -- {{ args }}

# Tries worlds of SEEDS seeds, in which services and networks fail in simulated time, from seed FROM on: a second each.
simulate seeds="1000" from="0":
    ESPALIER_SIMULATE_SEEDS={{ seeds }} ESPALIER_SIMULATE_FROM={{ from }} RUSTFLAGS="--cfg tokio_unstable" \
        cargo test --profile simulation -p espalier-tests --test simulation -- --nocapture

# Sends malformed messages to every RPC of every service, 100 000 each unless `--count` says otherwise: 10 minutes.
hostile *args:
    cargo build --release -p espalier-verifier -p espalier-drafter -p espalier-gateway -p espalier-tests \
        --bin espalier-verifier --bin espalier-drafter --bin espalier-gateway --bin espalier-hostile
    target/release/espalier-hostile --programs target/release {{ args }}

# Has libFuzzer look for bytes that do harm, in a target of tests/fuzz or in all; needs a C++ compiler.
[positional-arguments]
fuzz target seconds="60" *args:
    tests/fuzz/run "$@"

# Compares the text of plain and speculative decoding over many prompts: targets, temperatures, policies, threads.
lossless prompts="models/medium/greedy.jsonl" limit="50":
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release
    for threads in 1 2; do for target in small medium; do for temperature in 0 0.8; do
        for policy in constant,k=5 eagle2,total=16 expected-gain; do
            echo "$target, temperature $temperature, $policy, $threads threads"
            target/release/espalier --threads $threads bench decode --target $target --prompts {{ prompts }} \
                --limit {{ limit }} --temperature $temperature --seed 11 --policy $policy --json
        done
    done; done; done

# Has both targets answer questions (GSM8K's training part) and trains a drafter of each kind on that, or goes on with it.
train-drafters questions out="target/drafters":
    #!/usr/bin/env bash
    set -euo pipefail
    cargo build --release
    text() {
        local target=$1
        [ -e "{{ out }}/$target.jsonl" ] ||
            target/release/espalier train text --target "$target" --prompts "{{ questions }}" --out "{{ out }}/$target.jsonl"
    }
    train() {
        local kind=$1 folder="{{ out }}/$2"
        shift 2
        if [ -e "$folder/checkpoint/state.safetensors" ]; then
            target/release/espalier train resume "$folder"
        elif [ ! -e "$folder/config.json" ]; then
            target/release/espalier train "$kind" --out "$folder" "$@"
        fi
    }
    small="{{ out }}/small.jsonl" medium="{{ out }}/medium.jsonl"
    text small
    text medium
    train edd medium-edd --target medium --data "$medium" "{{ questions }}" --epochs 2 --learning-rate 1e-3
    train early-exit medium-early-exit --target medium --data "$medium" "{{ questions }}" --epochs 2
    train sorted sorted --init small --exits 1,2,4 --teachers small,medium --data "$small" "$medium" --learning-rate 1e-3
    train cali-ts medium-edd-cali-ts --target medium --drafter "{{ out }}/medium-edd" --data "$medium"

# Hold the simulation of `espalier plan` against what `espalier bench load --json` found.
plan-compare SCENARIO +FOUND:
    cargo run --release -p espalier-planner --example compare -- {{SCENARIO}} {{FOUND}}

# The simulations of docs/scale.md: tables on standard output, plots in a folder.
plan-scale FOLDER="docs/plots":
    cargo run --release -p espalier-planner --example scale -- {{FOLDER}}
