"""A process that has imported what a run needs, and forks one that does it: to be killed.

Lines of JSON come in: `{"run": {..}}` is answered by the process id, `{"wait": pid}` by how it
ended. A fresh interpreter for each run would cost most of the time of the tests.
"""

from __future__ import annotations

import json
import os
import sys
import traceback


def main() -> None:
    import cloudpickle  # noqa: F401
    import joblib.externals.loky  # noqa: F401
    import pyarrow  # noqa: F401
    from zql.execution import pool, write_run  # noqa: F401
    from zql.session import Session  # noqa: F401

    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if "run" in command:
            pid = os.fork()
            if not pid:
                run(command["run"])
            print(json.dumps(pid), flush=True)
        else:
            _, status = os.waitpid(command["wait"], 0)
            print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


def run(job: dict) -> None:
    """Does a script in this process, which ends with it: exit code 1 and a text for an error."""
    os.setsid()  # what belongs to the run is found by its session
    os.chdir(job["folder"])
    errors = os.open(job["errors"], os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    from zql import failpoints
    from zql.errors import ZqlError
    from zql.session import Session

    failpoints.arm(job["faults"], job["counts"])
    code = 0
    try:
        with Session(temp_dir=job["temp"], workers=job["workers"]) as session:
            for name, value in job["settings"].items():
                session.set(name, value)
            session.run(job["script"])
    except ZqlError as error:
        sys.stderr.write(str(error))
        code = 1
    except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
        traceback.print_exc()
        code = 2
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
