#!/usr/bin/env bash
# Other people's Transolvers in a folder of their own, peers/ in the checkout unless told, without their dependencies:
#   benchmarks/peers.sh [FOLDER]        PYTHON is python3 unless given, of the version that will import them
# Then PYTHONPATH=FOLDER slipstream bench cpu --peer. The tests look into peers/ by themselves.
set -euo pipefail
folder=${1:-$(cd "$(dirname "$0")/.." && pwd)/peers}
# flashslice needs einops; all others are what PhysicsNeMo imports before it comes to its Transolver.
"${PYTHON:-python3}" -m pip install -qq --disable-pip-version-check --no-deps --upgrade --target "$folder" \
    flashslice==0.3.0 nvidia-physicsnemo==2.2.2 einops==0.8.2 timm==1.0.31 torchvision==0.28.0 warp-lang==1.19.0 \
    tensordict==0.15.3 pyvers==0.2.3 cloudpickle==3.1.2 omegaconf==2.4.0 nvtx==0.2.16 tqdm==4.70.1 wrapt==2.5.2 s3fs==2026.9.0 \
    aiobotocore==3.10.0 aioitertools==0.13.0 botocore==1.44.5 jmespath==1.1.0 aiohttp==3.14.5 aiohappyeyeballs==2.7.1 \
    aiosignal==1.4.0 frozenlist==1.8.0 multidict==7.2.1 propcache==0.5.4 yarl==1.25.1
# torchvision's wheel is for CUDA. Beside a torch without, two registrations of operators fail that nothing here uses.
if ! "${PYTHON:-python3}" -c 'import sys, torch; sys.exit(torch.version.cuda is None)'; then
    sed -i '/register_fake("torchvision::q\?nms")/d' "$folder/torchvision/_meta_registrations.py"
fi
