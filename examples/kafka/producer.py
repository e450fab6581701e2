"""Create two topics and fill the first with edges of a generated stream: BROKER TOPIC TOPIC [EDGES].

Needs the extra `kafka`. The second topic is compacted: with `rpq run --upsert`, it contains the current answer.
"""

import json
import sys

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from rpq.workloads.generate.interactions import Interactions, generate_interactions

broker, edges, answers = sys.argv[1:4]
count = int(sys.argv[4]) if len(sys.argv) > 4 else 20_000

admin = AdminClient({"bootstrap.servers": broker})
topics = [NewTopic(edges, 1, 1), NewTopic(answers, 4, 1, config={"cleanup.policy": "compact"})]
for name, creation in admin.create_topics(topics).items():
    try:
        creation.result()
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
            raise
        print(f"the topic {name} exists already")

producer = Producer({"bootstrap.servers": broker, "linger.ms": 20, "enable.idempotence": True})
for edge in generate_interactions(Interactions(edges=count, seed=1)).to_pylist():
    producer.produce(edges, json.dumps(edge))
    producer.poll(0)
producer.flush()
print(f"{count:,} edges are in the topic {edges}")
