"""Thousands of requests made from our OpenAPI description: `python stress/schema_cases.py RUN`.

schemathesis sends valid and invalid ones to `transduce serve RUN`, and compares every answer with the description.
Install it beside, because it needs other versions than ours:

    python3 -m venv schemathesis && schemathesis/bin/pip install schemathesis==4.32.5
    python stress/schema_cases.py runs/demo --program schemathesis/bin/schemathesis

One check is left out: that each valid request is accepted. The description does not say which languages a server has.
"""

import argparse
import subprocess

from local_server import started_server


def main() -> None:
    """Runs schemathesis, and prints what the server logs besides its requests."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--program", default="schemathesis")
    parser.add_argument("--cases", type=int, default=1000, help="most cases of an operation in its fuzzing")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    options = ["--checks=all", "--exclude-checks=positive_data_acceptance", "--continue-on-failure", "--no-shrink"]
    options += [f"--max-examples={arguments.cases}", f"--seed={arguments.seed}", "--request-timeout=60"]
    with started_server(arguments.run, options=["--threads", "1", "--max-characters", "300"]) as server:
        code = subprocess.call([arguments.program, "run", f"{server.url}/openapi.json", *options])
        faults = server.faults()
    print(f"{len(faults)} lines of the server's log are no records of requests", *faults[:20], sep="\n")
    raise SystemExit(bool(code or faults))


if __name__ == "__main__":
    main()
