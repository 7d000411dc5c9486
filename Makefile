# `make` alone lists the commands. Each of them first sees to .venv; nothing is installed outside this folder.
.PHONY: help demo lab test bench league notebooks picture covered clean
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

RUN := .venv/bin/python
SUPPORTED := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/ready ## train a sorting policy and a pocket-sized language model, print tables, draw curves
	@$(RUN) -m minirl.cli demo

lab: .venv/ready ## open the course in JupyterLab
	@$(RUN) -m jupyterlab --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb \
	  $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_OPTIONS)

test: .venv/ready ## run every test: style, units, mutants, command line, browser, notebooks
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	MINIRL_FAST=1 OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadfile --nbval-lax tests notebooks solutions

bench: .venv/ready ## measure speed and learning, in ratios where machines differ
	@$(RUN) tests/benchmarks/run.py

league: .venv/ready ## play every recipe on the same work with the same budget, print a table, draw a picture
	@$(RUN) -m minirl.league

notebooks: .venv/ready ## re-execute every notebook in full and keep its outputs
	$(RUN) tests/execute_notebooks.py notebooks/*.ipynb

picture: .venv/ready ## draw the README's picture anew
	@$(RUN) -m minirl.cli demo --out .github/images

covered: .venv/ready ## list the systems of the sources and the notebook cells that run them
	@$(RUN) tests/curriculum.py

clean: ## remove .venv and all that the tests leave; runs/ stays
	rm -rf .venv .pytest_cache .ruff_cache artefacts tests/browser/artefacts build dist minirl.egg-info
	find minirl tests notebooks -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf

# A half-made .venv holds the file `unfinished`, and the next call starts it afresh (pip keeps what it downloaded).
.venv/ready: pyproject.toml constraints.txt
	@if [ -e .venv/unfinished ] || ! $(RUN) -c '' 2>/dev/null; then \
	  set -- $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3.10 python3 python); \
	  for python; do \
	    "$$python" -c '$(SUPPORTED)' 2>/dev/null && break; \
	    found="$$("$$python" -V 2>/dev/null || echo "$$found")"; python=; \
	  done; \
	  if [ -z "$$python" ]; then \
	    echo "minirl needs Python 3.10 to 3.13, found $${found:-none}: make PYTHON=/path/to/python3.11" >&2; exit 1; \
	  fi; \
	  echo "Setting up .venv with $$python. The first time, this takes a few minutes."; \
	  rm -rf .venv && mkdir .venv && touch .venv/unfinished && "$$python" -m venv .venv || exit 1; \
	fi
	@$(RUN) -m pip --version >/dev/null 2>&1 || $(RUN) -m ensurepip
	@touch .venv/unfinished
	@$(RUN) -m pip install --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@$(RUN) -m jupyterlab.labextensions disable --level=sys_prefix @jupyterlab/apputils-extension:announcements 2>/dev/null # no questions
	@rm .venv/unfinished && touch $@
