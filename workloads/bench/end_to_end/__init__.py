"""The latency that an application sees: through the API, through pipes, over HTTP, and from topic to topic of Kafka.

`latency` is the experiment; `pipes`, `http_server`, `kafka_topics` and `stream_processors` are the paths of an event.
"""
