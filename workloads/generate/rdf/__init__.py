"""Streams of RDF for the SPARQL queries of the papers: events of a few triples each, from a seed, of any length.

    taxi_trips, taxi_rides, social_network, linked_stream, weather_sensors   one kind of stream each
    rdf_streams                                                              all of them by name, and a changing graph
    terms                                                                    columns of RDF terms, and events of triples
"""
