package rivals;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.neo4j.dbms.api.DatabaseManagementService;
import org.neo4j.graphdb.GraphDatabaseService;
import org.neo4j.graphdb.Relationship;
import org.neo4j.graphdb.Result;
import org.neo4j.graphdb.Transaction;

/**
 * Thousands of patterns over a growing graph in Neo4j, as TriC's authors used it: an inverted index from the atoms of patterns to
 * the patterns, and a query with parameters for each pattern that an edge affects. In its favour a query starts at both ends
 * of the new edge, once for each atom that the edge can be, a pattern of which an atom has no edge yet is not asked, vertices
 * are created before, and plans are made outside of its seconds. Arguments: EDGES PATTERNS.
 */
final class Neo4jPatterns {
    private static final double WARM_UP_SECONDS = 10;
    private static final int BATCH = 20;

    /** An atom: a vertex, or -1 - v for the variable v of the pattern, at each end. */
    private record Atom(int source, int label, int target) {}

    private record Edge(int source, int label, int target) {}

    private record Pattern(List<Atom> atoms, int variables) {}

    /** A query for the other atoms of a pattern if an edge is one of its atoms, with the columns of its variables. */
    private record Question(String text, int[] constants, int[] free) {}

    private record Reader(int pattern, int atom) {}

    private final List<Edge> edges = new ArrayList<>();
    private final List<Pattern> patterns = new ArrayList<>();
    private final Map<Atom, List<Reader>> readers = new HashMap<>();
    private final Map<Reader, Question> questions = new HashMap<>();
    private final Map<Integer, Long> nodes = new HashMap<>();
    private final Map<Long, Integer> vertices = new HashMap<>();
    private final Set<String> planned = new HashSet<>();
    private final GraphDatabaseService database;

    private Neo4jPatterns(DatabaseManagementService service, String file, String sets) throws IOException {
        database = service.database("neo4j");
        Set<Integer> names = new TreeSet<>();
        for (String line : Files.readAllLines(Path.of(file))) {
            int[] cells = Arrays.stream(line.split("\t")).mapToInt(Integer::parseInt).toArray();
            edges.add(new Edge(cells[0], cells[1], cells[2]));
            names.add(cells[0]);
            names.add(cells[2]);
        }
        for (String line : Files.readAllLines(Path.of(sets))) {
            Set<Atom> atoms = new LinkedHashSet<>();
            int variables = 0;
            for (String text : line.split("\t")) {
                int[] cells = Arrays.stream(text.split(",")).mapToInt(Integer::parseInt).toArray();
                atoms.add(new Atom(cells[0], cells[1], cells[2]));
                for (int term : new int[] {cells[0], cells[2]}) {
                    variables = Math.max(variables, -term);
                    if (term >= 0) {
                        names.add(term);
                    }
                }
            }
            int number = patterns.size();
            patterns.add(new Pattern(List.copyOf(atoms), variables));
            int place = 0;
            for (Atom atom : atoms) {
                readers.computeIfAbsent(view(atom), key -> new ArrayList<>()).add(new Reader(number, place++));
            }
        }
        try (Transaction transaction = database.beginTx()) {
            for (int vertex : names) {
                long id = transaction.createNode(Neo4j.VERTEX).getId();
                nodes.put(vertex, id);
                vertices.put(id, vertex);
            }
            transaction.commit();
        }
    }

    public static void main(String[] arguments) throws Exception {
        DatabaseManagementService service = Neo4j.open();
        Neo4jPatterns run = new Neo4jPatterns(service, arguments[0], arguments[1]);
        run.push(WARM_UP_SECONDS, false);
        run.clear();
        System.gc();
        System.out.println("ready");
        System.out.flush();
        run.push(Double.POSITIVE_INFINITY, true);
        service.shutdown();
    }

    /** Return what atoms have in common that the same edges can be: the label and the constants. */
    private static Atom view(Atom atom) {
        return new Atom(Math.max(atom.source, -1), atom.label, Math.max(atom.target, -1));
    }

    private void clear() {
        try (Transaction transaction = database.beginTx()) {
            try (var all = transaction.getAllRelationships()) {
                all.forEach(Relationship::delete);
            }
            transaction.commit();
        }
    }

    private void push(double limit, boolean prints) {
        var threads = ManagementFactory.getThreadMXBean();
        Set<Edge> known = new HashSet<>();
        Set<Atom> filled = new HashSet<>();
        long spent = 0;
        long answers = 0;
        long sum = 0;
        long begun = System.nanoTime();
        for (int start = 0; start < edges.size(); start += BATCH) {
            int end = Math.min(start + BATCH, edges.size());
            Map<Reader, List<long[]>> found = new LinkedHashMap<>();
            long started = threads.getCurrentThreadCpuTime();
            try (Transaction transaction = database.beginTx()) {
                for (Edge edge : edges.subList(start, end)) {
                    if (!known.add(edge)) {
                        continue;
                    }
                    long source = nodes.get(edge.source);
                    long target = nodes.get(edge.target);
                    transaction.getNodeById(source).createRelationshipTo(transaction.getNodeById(target), Neo4j.type(edge.label));
                    List<Reader> affected = affected(edge, filled);
                    spent += threads.getCurrentThreadCpuTime() - started;
                    plan(transaction, affected, source, target);
                    started = threads.getCurrentThreadCpuTime();
                    found.clear();
                    for (Reader reader : affected) {
                        found.put(reader, evaluate(transaction, reader, source, target));
                    }
                    spent += threads.getCurrentThreadCpuTime() - started;
                    for (Set<List<Integer>> rows : solutions(found, edge).values()) {
                        answers += rows.size();
                        for (List<Integer> row : rows) {
                            sum += Slides.checksum(row.toArray());
                        }
                    }
                    started = threads.getCurrentThreadCpuTime();
                }
                transaction.commit();
            }
            spent += threads.getCurrentThreadCpuTime() - started;
            if (prints) {
                System.out.println(end + "\t" + spent * 1e-9 + "\t" + answers + "\t" + Long.toUnsignedString(sum));
                System.out.flush();
            } else if ((System.nanoTime() - begun) * 1e-9 > limit) {
                return;
            }
        }
    }

    /** Return the patterns that can have a solution with the edge, with the atom that it is. */
    private List<Reader> affected(Edge edge, Set<Atom> filled) {
        List<Reader> affected = new ArrayList<>();
        for (int way = 0; way < 4; way++) {
            Atom view = new Atom((way & 1) == 0 ? -1 : edge.source, edge.label, (way & 2) == 0 ? -1 : edge.target);
            filled.add(view);
            affected.addAll(readers.getOrDefault(view, List.of()));
        }
        affected.removeIf(reader -> {
            Pattern pattern = patterns.get(reader.pattern);
            Atom atom = pattern.atoms.get(reader.atom);
            boolean isLoop = atom.source < 0 && atom.source == atom.target;
            return isLoop && edge.source != edge.target
                    || !pattern.atoms.stream().allMatch(one -> filled.contains(view(one)));
        });
        return affected;
    }

    /** Execute the queries whose plans are not in the cache. */
    private void plan(Transaction transaction, List<Reader> affected, long source, long target) {
        for (Reader reader : affected) {
            if (planned.add(question(reader).text)) {
                evaluate(transaction, reader, source, target);
            }
        }
    }

    private List<long[]> evaluate(Transaction transaction, Reader reader, long source, long target) {
        Question question = question(reader);
        if (question.text.isEmpty()) {
            return List.of(new long[0]);
        }
        Map<String, Object> parameters = new HashMap<>();
        parameters.put("s", source);
        parameters.put("t", target);
        for (int place = 0; place < question.constants.length; place++) {
            parameters.put("c" + place, nodes.get(question.constants[place]));
        }
        try (Result result = transaction.execute(question.text, parameters)) {
            return Neo4j.rows(result, result.columns());
        }
    }

    private Question question(Reader reader) {
        return questions.computeIfAbsent(reader, key -> question(patterns.get(key.pattern), key.atom));
    }

    /** Write the query: the ends of the edge and the constants by their numbers, an atom a clause, so that edges may repeat. */
    private static Question question(Pattern pattern, int place) {
        Atom seed = pattern.atoms.get(place);
        Map<Integer, String> names = new LinkedHashMap<>();
        StringBuilder bound = new StringBuilder();
        names.put(seed.source, "s");
        names.putIfAbsent(seed.target, "t");
        List<Integer> constants = new ArrayList<>();
        List<Integer> free = new ArrayList<>();
        StringBuilder clauses = new StringBuilder();
        for (int number = 0; number < pattern.atoms.size(); number++) {
            Atom atom = pattern.atoms.get(number);
            if (number == place) {
                continue;
            }
            for (int term : new int[] {atom.source, atom.target}) {
                if (!names.containsKey(term)) {
                    (term < 0 ? free : constants).add(term);
                    names.put(term, term < 0 ? "v" + (free.size() - 1) : "c" + (constants.size() - 1));
                }
            }
            clauses.append(String.format(
                    " MATCH (%s)-[:L%d]->(%s)", names.get(atom.source), atom.label, names.get(atom.target)));
        }
        for (String name : names.values()) {
            if (!name.startsWith("v")) {
                bound.append(String.format(" MATCH (%1$s) WHERE id(%1$s) = $%1$s", name));
            }
        }
        StringBuilder returned = new StringBuilder(" RETURN ");
        for (int term : free) {
            returned.append(returned.length() > 8 ? ", " : "").append("id(").append(names.get(term)).append(") AS ");
            returned.append(names.get(term));
        }
        String text = clauses.isEmpty() ? "" : bound.substring(1) + clauses + (free.isEmpty() ? returned + "1 AS found" : returned);
        return new Question(
                text,
                constants.stream().mapToInt(Integer::intValue).toArray(),
                free.stream().mapToInt(Integer::intValue).toArray());
    }

    /** Return the rows of each pattern: its number and the values of its variables; a solution that was found twice is one. */
    private Map<Integer, Set<List<Integer>>> solutions(Map<Reader, List<long[]>> found, Edge edge) {
        Map<Integer, Set<List<Integer>>> solutions = new LinkedHashMap<>();
        found.forEach((reader, rows) -> {
            Pattern pattern = patterns.get(reader.pattern);
            Atom seed = pattern.atoms.get(reader.atom);
            int[] free = question(reader).free;
            for (long[] row : rows) {
                Integer[] values = new Integer[1 + pattern.variables];
                values[0] = reader.pattern;
                for (int place = 0; place < free.length; place++) {
                    values[-free[place]] = vertices.get(row[place]);
                }
                if (seed.source < 0) {
                    values[-seed.source] = edge.source;
                }
                if (seed.target < 0) {
                    values[-seed.target] = edge.target;
                }
                solutions.computeIfAbsent(reader.pattern, key -> new HashSet<>()).add(Arrays.asList(values));
            }
        });
        return solutions;
    }
}
