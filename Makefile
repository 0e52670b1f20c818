# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause

PYTHON ?= python3
ARGS ?=
# Creates the environment if needed, and runs its Python: see tools/env.py.
RUN = @$(PYTHON) tools/env.py run

.DEFAULT_GOAL := usage
.PHONY: usage help demo demo-rgbd check test coverage lint docs env bench bench-trace bench-cost bench-bodies bench-clock bench-takes bench-faults bench-gantry bench-calibrate bench-swarm bench-rgbd bench-rgbd-map soak clean clean-env

usage:
	@echo '  make demo    run a simulated Motive and the node, with a live table'
	@echo '  make test    lint, types and all tests'
	@echo '  make env     the environment for all commands: reports, depth cameras, autopilots'
	@echo '  make help    list all targets'

help:  ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22
	@echo
	@echo "  ARGS='...' is passed to the program, as in: make test ARGS='-k frames'"
	@echo '  Uses the sourced ROS 2; without one, Jazzy from PyPI (or ROS_DISTRO=kilted)'

demo:  ## run a simulated Motive and the node, with a live table
	$(RUN) --runtime -m optitrack_vrpn demo $(ARGS)

demo-rgbd:  ## score a simulated depth camera against mocap
	$(RUN) -m optitrack_vrpn rgbd_demo $(ARGS)

check:  ## lint, types, rules and fast pure tests, in under a minute
	$(RUN) tools/check.py $(ARGS)

test: lint  ## lint, types and all tests, compiled
	$(RUN) --installed tools/run_tests.py $(ARGS)

coverage:  ## all tests as plain Python, with the covered lines per package
	$(RUN) tools/coverage_report.py $(ARGS)

lint:  ## style (ruff, flake8 as ROS has it), types (mypy), rules
	$(RUN) tools/check.py --lint

docs:  ## regenerate generated parts of config and docs
	$(RUN) -m optitrack_vrpn parameters --write

env:  ## create the environment of the other targets
	@$(PYTHON) tools/env.py make

bench:  ## measure latency and processor time
	$(RUN) --installed bench/latency.py $(ARGS)

bench-trace:  ## trace what a pose costs and waits for (root, perf)
	$(RUN) --installed bench/latency_trace.py $(ARGS)

bench-cost:  ## measure steps and the start (WHAT=steps)
	$(RUN) --installed bench/cost.py $(or $(WHAT),steps) $(ARGS)

bench-bodies:  ## measure the validity of bodies under faults
	$(RUN) --installed -m bench.bodies $(ARGS)

bench-clock:  ## measure the stamp estimators
	$(RUN) --installed bench/clock.py $(ARGS)

bench-takes:  ## measure report and export on long takes
	$(RUN) bench/takes.py $(ARGS)

bench-faults:  ## run the node through all faults
	$(RUN) bench/faults.py $(ARGS)

bench-gantry:  ## compare control rules on the simulated gantry
	$(RUN) -m bench.gantry $(ARGS)

bench-calibrate:  ## measure calibrate on simulated data (an hour of processor time)
	@OPENBLAS_NUM_THREADS=1 $(PYTHON) tools/env.py run -m bench.calibrate $(ARGS)

bench-swarm:  ## measure up to 32 robots on one network (root)
	$(RUN) --installed bench/swarm.py $(ARGS)

bench-rgbd:  ## measure the RGB-D odometry; --topics: as a node
	$(RUN) -m bench.rgbd $(ARGS)

bench-rgbd-map:  ## measure the loop closure of the RGB-D mapper
	$(RUN) -m bench.rgbd_mapping $(ARGS)

soak:  ## run the node for an hour with faults every minute
	$(RUN) bench/soak.py $(ARGS)

clean:  ## remove temporary files of tests and tools
	@rm -rf .pytest_cache .flake8_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	@find . -path './.venv*' -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

clean-env: clean  ## remove the environments too
	@rm -rf .venv .venv[-.]*
