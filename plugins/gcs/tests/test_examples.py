"""The example of the GCS page runs."""

import json
import urllib.request

from servers.examples import said_by_examples


def test_example_runs(server, tmp_path):
    """It does what it says on a service of this machine, without a warning."""
    body = json.dumps({"name": "agent-results"}).encode()
    head = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{server.url}/storage/v1/b?project=p", body, head)).close()
    variables = {"STEAD_GCS__ENDPOINT_URL": server.url, "STEAD_GCS__ANONYMOUS": "true"}
    assert said_by_examples("docs/reference/gcs.md", variables, tmp_path) == [(0, "/a.txt 6 b'hello\\n'\n", "")]
