#!/bin/bash
# A sweep as a Slurm job: one Ray over the job's nodes, started for one run and ended after it
#
#   sbatch slurm.sh quickstart --out /shared/runs/quickstart
#
# What follows is handed to `stsq run`; --out must lie on a file system that all nodes mount. See docs/clusters/slurm.md.
#SBATCH --job-name=stsq
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --gpus-per-node=1
#SBATCH --time=04:00:00
#SBATCH --signal=INT@120
#SBATCH --requeue
#SBATCH --open-mode=append

set -euo pipefail

# The environment with stsq, on a file system that all nodes mount.
# shellcheck source=/dev/null
source "${STSQ_ENV:-$HOME/stsq-env}/bin/activate"

# Only who has this job's token can use its Ray, although other users share the network.
umask 077
mkdir -p "$HOME/.stsq"
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$HOME/.stsq/token-$SLURM_JOB_ID" RAY_USAGE_STATS_ENABLED=0
python -c 'import secrets; print(secrets.token_hex(32), end="")' > "$RAY_AUTH_TOKEN_PATH"
trap 'rm -f "$RAY_AUTH_TOKEN_PATH" "${STSQ_CODE:-}"' EXIT

# Two jobs that share a node must not share a port.
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))

# SIGINT, which Slurm sends two minutes before the time is over and `scancel --signal=INT JOB` at any time, is for the run alone,
# which then keeps everything and ends with exit code 130. It would make `ray symmetric-run` kill the run at once, so that
# ignores it, as this script does. The run would ignore it, too, as children do, and no shell can put that back: Python does.
# The other nodes do not notice the end of the head's Ray, so srun gives them 15 seconds.
trap '' INT
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300 STSQ_CODE="$HOME/.stsq/code-$SLURM_JOB_ID"
export STSQ_HEEDS='import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])'
rm -f "$STSQ_CODE"
# shellcheck disable=SC2016
srun --wait=15 --kill-on-bad-exit=0 bash -c 'trap "" INT; exec "$@"' node \
  ray symmetric-run --address "$head:$port" --min-nodes "$SLURM_JOB_NUM_NODES" \
  --num-cpus="${SLURM_CPUS_PER_TASK:-1}" --num-gpus="${SLURM_GPUS_ON_NODE:-0}" --disable-usage-stats -- \
  bash -c 'python -c "$STSQ_HEEDS" stsq run "$@"; code=$?; echo "$code" > "$STSQ_CODE"; exit "$code"' run --address "$head:$port" "$@" || true

# `ray symmetric-run` ends with 0 where Ray did not start, so what counts is what the run has said.
if [ ! -e "$STSQ_CODE" ]; then
  echo "the run did not start: Ray did not come up on the nodes of this job (see above)" >&2
  exit 1
fi
exit "$(cat "$STSQ_CODE")"
