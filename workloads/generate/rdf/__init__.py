"""Streams of RDF for the SPARQL queries of the papers: events of a few triples each, from a seed, of any length.

taxi_trips, taxi_rides, social_network, linked_stream, weather_sensors, changing_graph   a kind each
event_triples, term_columns                                                              what they are made with
rdf_streams                                                                              all of them by name
"""
