import { expect, test } from 'vitest';
import { mcpToolName } from '../../src/tools/mcp/mcp-tool.ts';
import fc, { anyCharacter } from '../support/property.ts';

const part = fc.oneof(
  fc.string({ minLength: 1, maxLength: 90, unit: anyCharacter }),
  fc.string({ minLength: 1, maxLength: 6, unit: fc.constantFrom('_', 'a', '-', 'A', '.') }),
);

test('a name fits every endpoint, and two tools never share one', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(part, part), { maxLength: 60 }), (pairs) => {
      const names = new Map(pairs.map(([server, tool]) => [JSON.stringify([server, tool]), mcpToolName(server, tool)]));
      for (const name of names.values()) expect(name).toMatch(/^mcp__[a-zA-Z0-9_-]{1,59}$/);
      expect(new Set(names.values()).size).toBe(names.size);
    }),
  );
});

test('ambiguous names are distinguished by a hash', () => {
  expect(mcpToolName('a', 'b__c')).toBe('mcp__a__b__c');
  expect(mcpToolName('a__b', 'c')).toMatch(/^mcp__a__b__c_[0-9a-f]{12}$/);
  expect(mcpToolName('a_', 'b')).toMatch(/^mcp__a___b_[0-9a-f]{12}$/);
  expect(mcpToolName('a', '_b')).toBe('mcp__a___b');
  expect(mcpToolName('git hub', 'é')).toMatch(/^mcp__git_hub____[0-9a-f]{12}$/);
  expect(mcpToolName('a', 'x'.repeat(80))).toMatch(/^mcp__a__x{43}_[0-9a-f]{12}$/);
  const lookalike = mcpToolName('a b', 'c').slice('mcp__'.length);
  expect(mcpToolName('a_b', lookalike.split('__')[1] ?? '')).not.toBe(mcpToolName('a b', 'c'));
});
