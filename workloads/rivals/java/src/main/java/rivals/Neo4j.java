package rivals;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.neo4j.configuration.GraphDatabaseSettings;
import org.neo4j.dbms.api.DatabaseManagementService;
import org.neo4j.dbms.api.DatabaseManagementServiceBuilder;
import org.neo4j.graphdb.GraphDatabaseService;
import org.neo4j.graphdb.Label;
import org.neo4j.graphdb.RelationshipType;
import org.neo4j.graphdb.Result;
import org.neo4j.graphdb.Transaction;

/**
 * Neo4j in this process, its store in the folder for temporary files: a transaction for the changes of a slide and one for the
 * query, whose plan is in the cache. Nodes are found by Neo4j's own numbers, without an index. Arguments: CHANGES CYPHER.
 */
final class Neo4j implements Slides.Store<long[]> {
    static final Label VERTEX = Label.label("V");

    /** Neo4j's numbers of vertices, and the vertices by these. */
    private final Map<Integer, Long> nodes = new HashMap<>();

    private final Map<Long, Integer> vertices = new HashMap<>();
    private final Map<Slides.Edge, Long> relationships = new HashMap<>();
    private final DatabaseManagementService service = open();
    private final GraphDatabaseService database = service.database("neo4j");
    private final String query;
    private List<String> columns = List.of();

    private Neo4j(String query) {
        this.query = query;
    }

    public static void main(String[] arguments) throws Exception {
        Slides.run(arguments[0], () -> new Neo4j(arguments[1]));
    }

    /** Open a new database; the driver removes its files. */
    static DatabaseManagementService open() {
        try {
            String folder = System.getenv().getOrDefault("TMPDIR", System.getProperty("java.io.tmpdir"));
            return new DatabaseManagementServiceBuilder(Files.createTempDirectory(Path.of(folder), "neo4j"))
                    .setConfig(GraphDatabaseSettings.pagecache_memory, 1L << 30)
                    .setConfig(GraphDatabaseSettings.query_cache_size, 100_000)
                    .setConfig(GraphDatabaseSettings.cypher_min_replan_interval, Duration.ofHours(1))
                    .setConfig(GraphDatabaseSettings.preallocate_logical_logs, false)
                    .setConfig(GraphDatabaseSettings.udc_enabled, false)
                    .build();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static RelationshipType type(int label) {
        return RelationshipType.withName("L" + label);
    }

    private long node(Transaction transaction, int vertex) {
        return nodes.computeIfAbsent(vertex, number -> {
            long id = transaction.createNode(VERTEX).getId();
            vertices.put(id, number);
            return id;
        });
    }

    @Override
    public void clear() {
        change(new ArrayList<>(relationships.keySet()), List.of());
    }

    @Override
    public void change(List<Slides.Edge> removed, List<Slides.Edge> added) {
        try (Transaction transaction = database.beginTx()) {
            for (Slides.Edge edge : removed) {
                transaction.getRelationshipById(relationships.remove(edge)).delete();
            }
            for (Slides.Edge edge : added) {
                var source = transaction.getNodeById(node(transaction, edge.source()));
                var target = transaction.getNodeById(node(transaction, edge.target()));
                relationships.put(edge, source.createRelationshipTo(target, type(edge.label())).getId());
            }
            transaction.commit();
        }
    }

    @Override
    public List<long[]> evaluate() {
        try (Transaction transaction = database.beginTx(); Result result = transaction.execute(query)) {
            columns = result.columns();
            return rows(result, columns);
        }
    }

    /** Return all rows of a result whose columns are numbers of nodes. */
    static List<long[]> rows(Result result, List<String> columns) {
        List<long[]> rows = new ArrayList<>();
        result.accept(row -> {
            long[] cells = new long[columns.size()];
            for (int place = 0; place < cells.length; place++) {
                cells[place] = row.getNumber(columns.get(place)).longValue();
            }
            rows.add(cells);
            return true;
        });
        return rows;
    }

    @Override
    public Object[] cells(long[] row) {
        Object[] cells = new Object[row.length];
        for (int place = 0; place < cells.length; place++) {
            cells[place] = vertices.get(row[place]);
        }
        return cells;
    }

    @Override
    public void close() {
        service.shutdown();
    }
}
