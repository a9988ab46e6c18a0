type Schema = {
  title?: string;
  description?: string;
  type?: string;
  const?: unknown;
  enum?: unknown[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
};

/** Every file format as tables, from the schemas that the code validates with. */
export function formatsPage(schemas: Array<[string, object]>): string {
  const parts = schemas.map(
    ([name, schema]) => `## ${titleOf(schema)}\n\n[Schema](schemas/${name})\n\n${body(schema)}`,
  );
  return [
    '# Formats',
    '',
    'Generated from the schemas in `src/protocol` by `npm run docs`. A key marked * must be there.',
    '',
    ...parts,
  ].join('\n');
}

function titleOf(schema: Schema): string {
  return schema.title ?? '';
}

function body(schema: Schema): string {
  const [stamp, events] = schema.allOf ?? [];
  if (stamp && events) {
    const types = (events.oneOf ?? events.anyOf ?? []).map(
      (event) => `### \`${String(event.properties?.['type']?.const)}\`\n\n${table(event, ['type'])}`,
    );
    return [`Every event has:\n\n${table(stamp, [])}`, ...types].join('\n');
  }
  return table(schema, ['$schema']);
}

function table(schema: Schema, without: string[]): string {
  const rows = Object.entries(schema.properties ?? {}).filter(([key]) => !without.includes(key));
  if (rows.length === 0) return 'Nothing besides its type.\n';
  const lines = rows.map(
    ([key, value]) =>
      `| \`${key}\`${schema.required?.includes(key) ? ' *' : ''} | ${typeOf(value)} | ${value.description ?? ''} |`,
  );
  return ['| key | type | meaning |', '|---|---|---|', ...lines, ''].join('\n');
}

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return `\`${JSON.stringify(schema.const)}\``;
  if (schema.enum) return schema.enum.map((value) => `\`${String(value)}\``).join(', ');
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return [...new Set(choices.map(typeOf))].join(' or ');
  if (schema.type === 'array') return `list of ${schema.items ? typeOf(schema.items) : 'anything'}`;
  if (schema.properties)
    return `{ ${Object.keys(schema.properties)
      .map((key) => `\`${key}\``)
      .join(', ')} }`;
  return schema.type ?? 'anything';
}
