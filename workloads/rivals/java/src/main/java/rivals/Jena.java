package rivals;

import java.util.ArrayList;
import java.util.List;
import org.apache.jena.graph.Node;
import org.apache.jena.graph.NodeFactory;
import org.apache.jena.graph.Triple;
import org.apache.jena.mem2.GraphMem2Fast;
import org.apache.jena.query.Query;
import org.apache.jena.query.QueryExecution;
import org.apache.jena.query.QueryExecutionFactory;
import org.apache.jena.query.QueryFactory;
import org.apache.jena.query.ResultSet;
import org.apache.jena.rdf.model.Model;
import org.apache.jena.rdf.model.ModelFactory;
import org.apache.jena.sparql.core.Var;
import org.apache.jena.sparql.engine.binding.Binding;

/** Jena's fastest graph in memory, without transactions; the query is parsed once. Arguments: CHANGES SPARQL. */
final class Jena implements Slides.Store<Binding> {
    private final GraphMem2Fast graph = new GraphMem2Fast();
    private final Model model = ModelFactory.createModelForGraph(graph);
    private final Query query;
    private final List<Var> columns;

    private Jena(String text) {
        query = QueryFactory.create(text);
        columns = query.getProjectVars();
    }

    public static void main(String[] arguments) throws Exception {
        Slides.run(arguments[0], () -> new Jena(arguments[1]));
    }

    private static Node vertex(int number) {
        return NodeFactory.createURI("urn:v:" + number);
    }

    private static Triple triple(Slides.Edge edge) {
        return Triple.create(
                vertex(edge.source()), NodeFactory.createURI("urn:l:" + edge.label()), vertex(edge.target()));
    }

    @Override
    public void change(List<Slides.Edge> removed, List<Slides.Edge> added) {
        for (Slides.Edge edge : removed) {
            graph.delete(triple(edge));
        }
        for (Slides.Edge edge : added) {
            graph.add(triple(edge));
        }
    }

    @Override
    public List<Binding> evaluate() {
        List<Binding> rows = new ArrayList<>();
        try (QueryExecution execution = QueryExecutionFactory.create(query, model)) {
            for (ResultSet found = execution.execSelect(); found.hasNext(); ) {
                rows.add(found.nextBinding());
            }
        }
        return rows;
    }

    @Override
    public int[] vertices(Binding row) {
        return columns.stream().mapToInt(name -> Integer.parseInt(row.get(name).getURI().substring(6))).toArray();
    }

    @Override
    public void close() {
        graph.close();
    }
}
