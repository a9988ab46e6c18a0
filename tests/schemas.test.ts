import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { publishedSchemas } from '../src/protocol/json-schemas.ts';

test('the published schemas are those of the code', () => {
  for (const [name, schema] of Object.entries(publishedSchemas())) {
    expect(JSON.parse(readFileSync(`docs/schemas/${name}`, 'utf8')), name).toEqual(schema);
  }
});
