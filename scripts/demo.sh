#!/bin/bash
# Compiles PP-OCR's text detector and recogniser, reads the text in a photograph of a page with
# them, and says how long onnxruntime takes for the same where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
tilewright=build/release/bin/tilewright
detector=ch_PP-OCRv4_det_infer recogniser=ch_PP-OCRv4_rec_infer
detector_shape=1x3x288x576 recogniser_shape=1x3x48x832
out=build/demo

cmake --preset release >/dev/null
cmake --build --preset release --target tilewright ocr -j "$(nproc)" -- --quiet
mkdir -p "$out"
$python scripts/fetch_models.py $detector.onnx $recogniser.onnx >/dev/null
$python examples/ocr/dictionary.py .cache/models/$recogniser.onnx "$out/characters.txt"

# compile MODEL SHAPE
compile() {
    local start=$EPOCHREALTIME
    $tilewright compile ".cache/models/$1.onnx" -o "$out/$1.tw" --shape "x=$2"
    awk -v name="$1" -v start="$start" -v end="$EPOCHREALTIME" -v size="$(wc -c <"$out/$1.tw")" \
        'BEGIN { printf "%s: compiled in %.1f s, %.1f MB\n", name, end - start, size / 1e6 }'
}
compile $detector $detector_shape
compile $recogniser $recogniser_shape

echo
build/release/examples/ocr/ocr "$out/$detector.tw" "$out/$recogniser.tw" "$out/characters.txt" \
    examples/ocr/page.png "$out/page.png"
$python examples/ocr/onnxruntime_time.py ".cache/models/$detector.onnx" $detector_shape \
    ".cache/models/$recogniser.onnx" $recogniser_shape
echo "The lines are outlined in $out/page.png"
