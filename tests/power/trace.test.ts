import { expect, test } from 'vitest';
import { callsOf } from '../../scripts/power/trace.ts';

test('a call that another thread interrupted in the trace is read as one', () => {
  const trace = [
    '11 pwrite64(18</w/a>, "one\\n\\x00", 5, 0 <unfinished ...>',
    '12 fsync(19</w>) = 0',
    '11 <... pwrite64 resumed>) = 5',
  ].join('\n');
  expect(callsOf(trace, '/w')).toEqual([
    { is: 'sync', path: '/w', begun: 1, ended: 1 },
    { is: 'write', path: '/w/a', at: 0, bytes: Buffer.from('one\n\0'), begun: 0, ended: 2 },
  ]);
});
