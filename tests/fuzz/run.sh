#!/usr/bin/env bash
# run.sh BUILD SECONDS [TARGET...]: every fuzz target for so long, as many at a time as there are processors, from its seeds and
# what earlier runs found. An input that crashes is written to BUILD/fuzz/TARGET.crash-HASH, and the run ends with 1. Put it into
# tests/fuzz/seeds/TARGET with the fix. ATTEND_FUZZ_SEED, a number, makes the same inputs each time, as many as the seconds allow.
set -euo pipefail
build=$1 seconds=$2
shift 2
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
seed=${ATTEND_FUZZ_SEED:-}
# Addresses are among the numbers that libFuzzer compares: without random ones it goes the same way again.
same_way=()
[ -z "$seed" ] || ! setarch -R true 2>/dev/null || same_way=(setarch -R)
[ $# -gt 0 ] || set -- native_request open_inference_request reflection_request checkpoint safetensors tokenizer configuration attention

# fuzz_attention: it makes its inputs itself.
fuzz_attention() {
  "$build/bin/attention_fuzz" ${seed:+--seed="$seed"} --seconds="$seconds" >"$build/fuzz/attention.log" 2>&1 || {
    cat "$build/fuzz/attention.log" >&2
    return 1
  }
  sed 's/^/fuzz: /' "$build/fuzz/attention.log"
}

# fuzz_target TARGET
fuzz_target() {
  local target=$1 corpus=$build/fuzz/$1.corpus folder name index seeds=()
  [ -z "$seed" ] || corpus=$build/fuzz/$1.corpus.seeded # of this run alone
  [ -z "$seed" ] || rm -rf "$corpus"
  mkdir -p "$corpus"
  for folder in "$here/seeds/$target" "$build/tests/fuzz/seeds/$target"; do
    [ ! -d "$folder" ] || seeds+=("$folder")
  done
  case $target in
    checkpoint)
      for folder in "$here"/../data/models/*/; do
        name=$(basename "$folder")
        index=$folder/model.safetensors.index.json
        { printf '%s\n' "$name"; cat "$folder/config.json"; if [ -e "$index" ]; then printf '\nINDEX\n'; cat "$index"; fi; } >"$corpus/$name"
      done
      ;;
    safetensors)
      find "$here/../data" -name '*.safetensors' -size -64k | while read -r file; do
        cp "$file" "$corpus/$(sha256sum <"$file" | cut -c1-16)"
      done
      ;;
    tokenizer)
      find "$here/../data" -name 'tokenizer.json' -size -64k | while read -r file; do
        { cat "$file"; printf '\nTEXT\nThe cat  sat\n on 3 m\303\244ts \360\237\231\202'; } >"$corpus/$(sha256sum <"$file" | cut -c1-16)"
      done
      ;;
  esac
  "${same_way[@]}" "$build/bin/${target}_fuzz" ${seed:+-seed="$seed"} -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=60 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$build/fuzz/$target." "$corpus" "${seeds[@]}" >"$build/fuzz/$target.log" 2>&1 || {
    tail -n 40 "$build/fuzz/$target.log" >&2
    echo "fuzz: $target failed: the input is beside $build/fuzz/$target.log" >&2
    return 1
  }
  sed -n "s/^stat::number_of_executed_units: */fuzz: $target: inputs /p" "$build/fuzz/$target.log"
}

mkdir -p "$build/fuzz"
status=0 running=0
for target; do
  if [ "$running" -ge "$(nproc)" ]; then
    wait -n || status=1
    running=$((running - 1))
  fi
  echo "fuzz: $target for $seconds s"
  if [ "$target" = attention ]; then fuzz_attention & else fuzz_target "$target" & fi
  running=$((running + 1))
done
for ((; running > 0; running--)); do
  wait -n || status=1
done
exit $status
