"""The example of the S3 page runs, with the variables that the SDK itself reads."""

from servers.examples import said_by_examples


def test_example_runs(seaweed, tmp_path):
    """It does what it says on a store of this machine, without a warning."""
    client = seaweed.client()
    client.create_bucket(Bucket="agent-results")
    client.close()
    variables = {
        "AWS_ENDPOINT_URL": seaweed.url,
        "AWS_ACCESS_KEY_ID": seaweed.access_key,
        "AWS_SECRET_ACCESS_KEY": seaweed.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    assert said_by_examples("docs/reference/s3.md", variables, tmp_path) == [(0, "/a.txt 6 b'hello\\n'\n", "")]
