#!/bin/sh
# The kit on a bare Debian, as root, with a user `learner` who can change nothing but her home: sh deploy/container/install.sh
# The image is made of this, and so can a machine be. PIP_… of the surroundings counts, as it always does for pip.
set -eu
cd "$(dirname "$0")/../.."
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends python3 python3-venv ca-certificates git >/dev/null
python3 -m venv /opt/kit
/opt/kit/bin/python -m pip install --quiet --no-cache-dir -c requirements.lock '.[lab]'
ln -sf /opt/kit/bin/ipu-teach /usr/local/bin/ipu-teach
id learner >/dev/null 2>&1 || useradd --create-home learner
rm -rf /var/lib/apt/lists/*
