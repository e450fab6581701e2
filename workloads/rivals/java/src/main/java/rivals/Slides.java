package rivals;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;

/** Reads changes, has a store evaluate a query after each slide, and prints what the module rpq.workloads.rivals describes. */
final class Slides {
    /** A term of RDF: an IRI, or the lexical form of a literal of a type, which is null for an IRI. */
    record Term(String text, String datatype) {}

    /** An edge that enters or leaves the window; the graph is -1 where there is one graph. */
    record Edge(int source, int label, int target, int graph) {}

    /** The changes of a slide; with `clears` all edges leave before others enter. */
    record Slide(long number, boolean clears, List<Edge> removed, List<Edge> added) {}

    /** A store of the edges of the window. */
    interface Store<Row> extends AutoCloseable {
        void clear();

        void change(List<Edge> removed, List<Edge> added);

        /** Return all rows of the answer. */
        List<Row> evaluate();

        /** Return the cells of a row: the number of a term, the value of a literal that is a number, or null if unbound. */
        Object[] cells(Row row);

        @Override
        void close();
    }

    private static final double WARM_UP_SECONDS = 5;
    private static final long NUMBER = -2;
    private static final long UNBOUND = -1;
    private static final String XSD = "http://www.w3.org/2001/XMLSchema#";
    private static final Set<String> NUMBERS = Set.of(XSD + "integer", XSD + "decimal", XSD + "float", XSD + "double");

    private Slides() {}

    /** Whether literals of this type are compared by value. */
    static boolean isNumber(String datatype) {
        return NUMBERS.contains(datatype);
    }

    /** Run over all slides, after a run in a store of its own for some seconds, so that the code is compiled. */
    static <Row> void run(String file, Supplier<Store<Row>> make) throws IOException {
        List<Edge> initial = new ArrayList<>();
        List<Slide> slides = read(Path.of(file), initial);
        run(initial, slides, make, WARM_UP_SECONDS, false);
        System.gc();
        run(initial, slides, make, Double.POSITIVE_INFINITY, true);
    }

    private static <Row> void run(
            List<Edge> initial, List<Slide> slides, Supplier<Store<Row>> make, double limit, boolean prints) {
        var threads = ManagementFactory.getThreadMXBean();
        try (Store<Row> store = make.get()) {
            long before = prints && !initial.isEmpty() ? liveBytes() : 0;
            store.change(List.of(), initial);
            if (prints) {
                System.out.println(initial.isEmpty() ? "ready" : "ready\t" + Math.max(0, liveBytes() - before));
                System.out.flush();
            }
            long spent = 0;
            long changing = 0;
            for (Slide slide : slides) {
                long started = threads.getCurrentThreadCpuTime();
                if (slide.clears) {
                    store.clear();
                }
                store.change(slide.removed, slide.added);
                long changed = threads.getCurrentThreadCpuTime();
                List<Row> rows = store.evaluate();
                spent += threads.getCurrentThreadCpuTime() - started;
                changing += changed - started;
                if (prints) {
                    print(slide.number, spent * 1e-9, changing * 1e-9, rows, store);
                } else if (spent * 1e-9 > limit) {
                    return;
                }
            }
        }
    }

    private static long liveBytes() {
        System.gc();
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private static <Row> void print(long slide, double spent, double changing, List<Row> rows, Store<Row> store) {
        long sum = 0;
        double total = 0;
        for (Row row : rows) {
            Object[] cells = store.cells(row);
            long hash = checksum(cells);
            sum += hash;
            total += weighted(cells, hash);
        }
        System.out.println(slide + "\t" + spent + "\t" + rows.size() + "\t" + Long.toUnsignedString(sum) + "\t" + total + "\t"
                + changing);
        System.out.flush();
    }

    static long checksum(Object[] cells) {
        long hash = 0;
        for (Object cell : cells) {
            hash = (hash ^ number(cell)) * 0x9E3779B97F4A7C15L;
            hash ^= hash >>> 32;
        }
        return hash;
    }

    /** Return the sum of the numbers in a row, by the weight of its checksum. */
    static double weighted(Object[] cells, long hash) {
        double values = 0;
        for (Object cell : cells) {
            values += cell instanceof Double value ? value : 0;
        }
        return values * (1 + (hash >>> 44) / (double) (1 << 20));
    }

    private static long number(Object cell) {
        return cell == null ? UNBOUND : cell instanceof Integer number ? number : NUMBER;
    }

    private static List<Slide> read(Path file, List<Edge> initial) throws IOException {
        List<Slide> slides = new ArrayList<>();
        try (BufferedReader lines = Files.newBufferedReader(file)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] cells = line.split("\t");
                if (cells[1].equals("=")) {
                    initial.add(edge(cells));
                    continue;
                }
                long number = Long.parseLong(cells[0]);
                if (slides.isEmpty() || slides.get(slides.size() - 1).number != number) {
                    slides.add(new Slide(number, cells[1].equals("0"), new ArrayList<>(), new ArrayList<>()));
                }
                Slide slide = slides.get(slides.size() - 1);
                if (cells.length > 2) {
                    (cells[1].equals("+") ? slide.added : slide.removed).add(edge(cells));
                }
            }
        }
        return slides;
    }

    private static Edge edge(String[] cells) {
        int graph = cells.length > 5 ? Integer.parseInt(cells[5]) : -1;
        return new Edge(Integer.parseInt(cells[2]), Integer.parseInt(cells[3]), Integer.parseInt(cells[4]), graph);
    }

    /** Read the file of terms that the third argument names; return null if there is none. */
    static List<Term> terms(String[] arguments) throws IOException {
        if (arguments.length < 3) {
            return null;
        }
        List<Term> terms = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[2]))) {
            int tab = line.lastIndexOf('\t');
            terms.add(tab < 0 ? new Term(line, null) : new Term(line.substring(0, tab), line.substring(tab + 1)));
        }
        return terms;
    }
}
