/**
 * Files in which every `if` that throws or returns is a refusal: permissions, addresses, paths, who gives orders. The sandbox is
 * left out: its tests try to get out of it, and without a fence some ways harm the machine that runs them.
 */
export const GUARDED = [
  'src/engine/gate.ts',
  'src/engine/offered-tools.ts',
  'src/tools/toolbox.ts',
  'src/tools/permit/ruling.ts',
  'src/tools/permit/rules.ts',
  'src/tools/permit/command.ts',
  'src/tools/permit/address.ts',
  'src/tools/paths.ts',
  'src/tools/open-file.ts',
  'src/tools/web/destination.ts',
  'src/tools/web/outbound.ts',
  'src/tools/web/check-url.ts',
  'src/core/senders.ts',
];

/** A sync that is found by its form, but whose loss loses nothing, and why. */
export const REDUNDANT: Array<{ file: string; code: string; why: string }> = [];

/** A protection that no form tells: `code` stands exactly once in the file. `tests`: where they are other ones than the file's. */
export type Patch = { file: string; code: string; replacement: string; tests?: string[][] };

const OWNERSHIP = [['tests/flow/ownership.test.ts', 'tests/cli/takeover.test.ts']];

export const patches: Patch[] = [
  { file: 'src/engine/gate.ts', code: ' && given.hash === hashOfCall(asked(call, folder))', replacement: '' },
  { file: 'src/engine/gate.ts', code: '!permit.rule && isTheirCheck', replacement: 'isTheirCheck' },
  {
    file: 'src/engine/gate.ts',
    code: 'return !permit.rule && isTheirCheck(session, key);',
    replacement: 'return true;',
  },
  // A stop that was dropped while no daemon ran, and that only a later round of the inbox finds.
  {
    file: 'src/engine/worker.ts',
    code: ' && !caughtUp && woken) return beat(ruled);',
    replacement: ' && false) return beat(ruled);',
  },
  // A child by its own rules alone.
  { file: 'src/protocol/effective.ts', code: 'session: root.permissions ?? [],', replacement: 'session: [],' },
  { file: 'src/tools/permit/rules.ts', code: "found('deny') ?? found('ask') ?? family", replacement: 'family' },
  { file: 'src/tools/permit/rules.ts', code: "above?.word === 'deny' ? above : ", replacement: '' },
  { file: 'src/tools/supervised.ts', code: ' || !claim(folder)) return false;', replacement: ') return false;' },
  {
    file: 'src/tools/nursery.ts',
    code: 'if (isFree && ended && isWhole) rest(nursery);',
    replacement: 'if (isFree && ended) rest(nursery);',
  },
  {
    file: 'src/store/kernel-lock.ts',
    code: "if (status === 1) return { is: 'held', by };",
    replacement: "if (status === 1) return { is: 'ours', by };",
    tests: OWNERSHIP,
  },
  {
    file: 'src/store/owner.ts',
    code: 'return dev === folder.dev && ino === folder.ino;',
    replacement: 'return true;',
    tests: [['tests/flow/ownership.test.ts'], ['tests/flow', 'tests/cli']],
  },
  {
    file: 'src/store/outbox.ts',
    code: 'return ifThere(() => readReply(path))?.equals(Buffer.from(content)) ?? false;',
    replacement: 'return true;',
  },
  { file: 'src/store/plan-file.ts', code: 'if (old && old.last?.text !== seen) {', replacement: 'if (old && false) {' },
];

/** Which tests are those of a file's own room, likeliest first: each list is run where the one before noticed nothing. */
const TESTS: Array<[place: string, lists: string[][]]> = [
  ['src/store/', [['tests/store'], ['tests/power']]],
  ['src/engine/gate', [['tests/engine/gate', 'tests/engine/approvals']]],
  ['src/engine/offered-tools', [['tests/engine/gate', 'tests/engine/notes']]],
  ['src/engine/', [['tests/engine/durability'], ['tests/engine'], ['tests/modes']]],
  ['src/protocol/', [['tests/protocol'], ['tests/tools/permissions']]],
  ['src/core/', [['tests/core'], ['tests/engine'], ['tests/modes']]],
  ['src/daemon/', [['tests/daemon']]],
  ['src/client/', [['tests/client'], ['tests/cli']]],
  ['src/tools/web/', [['tests/tools/web-'], ['tests/tools/check']]],
  ['src/tools/browser/', [['tests/tools/browser']]],
  ['src/tools/toolbox', [['tests/tools/toolbox']]],
  ['src/tools/permit/', [['tests/tools/permissions', 'tests/tools/toolbox']]],
  ['src/tools/jobs/', [['tests/tools/jobs']]],
  ['src/tools/mcp/', [['tests/tools/mcp']]],
  ['src/tools/super', [['tests/tools/supervisor'], ['tests/tools/shell', 'tests/tools/nursery']]],
  ['src/tools/nursery', [['tests/tools/nursery'], ['tests/tools/shell']]],
  [
    'src/tools/',
    [
      ['tests/tools/paths', 'tests/tools/files'],
      ['tests/tools/flip', 'tests/tools/search', 'tests/tools/toolbox', 'tests/tools/check'],
    ],
  ],
  ['src/', [['tests/flow']]],
];

export function testsFor(file: string): string[][] {
  return TESTS.find(([place]) => file.startsWith(place))?.[1] ?? [['tests']];
}
