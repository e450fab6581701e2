package rivals;

import java.util.ArrayList;
import java.util.List;
import org.eclipse.rdf4j.common.transaction.IsolationLevels;
import org.eclipse.rdf4j.model.IRI;
import org.eclipse.rdf4j.model.Statement;
import org.eclipse.rdf4j.model.ValueFactory;
import org.eclipse.rdf4j.query.BindingSet;
import org.eclipse.rdf4j.query.TupleQuery;
import org.eclipse.rdf4j.query.TupleQueryResult;
import org.eclipse.rdf4j.repository.sail.SailRepository;
import org.eclipse.rdf4j.repository.sail.SailRepositoryConnection;
import org.eclipse.rdf4j.sail.memory.MemoryStore;

/**
 * RDF4J's store in memory: one connection, no isolation, no inference, a transaction for each slide; the query is parsed
 * once. Arguments: CHANGES SPARQL.
 */
final class Rdf4j implements Slides.Store<BindingSet> {
    private final SailRepository repository = new SailRepository(new MemoryStore());
    private final SailRepositoryConnection connection = repository.getConnection();
    private final ValueFactory values = repository.getValueFactory();
    private final TupleQuery query;
    private List<String> columns;

    private Rdf4j(String text) {
        connection.setIsolationLevel(IsolationLevels.NONE);
        query = connection.prepareTupleQuery(text);
        query.setIncludeInferred(false);
    }

    public static void main(String[] arguments) throws Exception {
        Slides.run(arguments[0], () -> new Rdf4j(arguments[1]));
    }

    private IRI vertex(int number) {
        return values.createIRI("urn:v:" + number);
    }

    private List<Statement> statements(List<Slides.Edge> edges) {
        List<Statement> statements = new ArrayList<>(edges.size());
        for (Slides.Edge edge : edges) {
            IRI label = values.createIRI("urn:l:" + edge.label());
            statements.add(values.createStatement(vertex(edge.source()), label, vertex(edge.target())));
        }
        return statements;
    }

    @Override
    public void change(List<Slides.Edge> removed, List<Slides.Edge> added) {
        connection.begin();
        connection.remove(statements(removed));
        connection.add(statements(added));
        connection.commit();
    }

    @Override
    public List<BindingSet> evaluate() {
        List<BindingSet> rows = new ArrayList<>();
        try (TupleQueryResult found = query.evaluate()) {
            columns = found.getBindingNames();
            found.forEach(rows::add);
        }
        return rows;
    }

    @Override
    public int[] vertices(BindingSet row) {
        return columns.stream().mapToInt(name -> Integer.parseInt(row.getValue(name).stringValue().substring(6))).toArray();
    }

    @Override
    public void close() {
        connection.close();
        repository.shutDown();
    }
}
