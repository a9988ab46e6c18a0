/**
 * Files in which every `if` that throws or returns is a refusal: permissions, addresses, paths, senders. The sandbox is
 * left out, because its tests try to escape, and without protection some attempts harm the machine.
 */
export const GUARDED = [
  'src/engine/calls/permission-gate.ts',
  'src/tools/toolbox/toolbox.ts',
  'src/tools/permissions/permission-rules.ts',
  'src/tools/permissions/subject-forms.ts',
  'src/tools/files/work-paths.ts',
  'src/tools/files/safe-open.ts',
  'src/tools/web/destination.ts',
  'src/tools/web/outbound-request.ts',
  'src/core/session/session-messages.ts',
];

/** Syncs that are found by their form but are redundant, and why. */
export const REDUNDANT: Array<{ file: string; code: string; why: string }> = [];

/**
 * A protection that cannot be found by its form. `code` is exactly once in the file. `tests`: if not those of the file.
 */
export type Patch = { file: string; code: string; replacement: string; tests?: string[][] };

const OWNERSHIP = [['tests/flow/ownership.test.ts', 'tests/cli/takeover.test.ts']];

export const patches: Patch[] = [
  {
    file: 'src/engine/calls/permission-gate.ts',
    code: ' && given.hash === hashCall(approvedPartOf(call, folder))',
    replacement: '',
  },
  {
    file: 'src/engine/calls/permission-gate.ts',
    code: '!permit.rule && isUserWrittenCheck',
    replacement: 'isUserWrittenCheck',
  },
  {
    file: 'src/engine/calls/permission-gate.ts',
    code: 'return !permit.rule && isUserWrittenCheck(session, key);',
    replacement: 'return true;',
  },
  // A stop that was dropped while no daemon ran and is only found by a later check of the inbox.
  {
    file: 'src/engine/loop/worker.ts',
    code: ' && !intake.isCaughtUp && intake.isDue)',
    replacement: ' && false)',
  },
  // A child session that uses its own settings.
  {
    file: 'src/main/live-settings.ts',
    code: 'const root = existingRootOf(name, workspace.has);',
    replacement: 'const root = name;',
  },
  {
    file: 'src/protocol/settings/effective-settings.ts',
    code: 'session: session.permissions ?? [],',
    replacement: 'session: [],',
  },
  {
    file: 'src/tools/permissions/permission-rules.ts',
    code: "workspaceRule?.word === 'deny' ? workspaceRule : ",
    replacement: '',
  },
  {
    file: 'src/tools/process/recover-command.ts',
    code: ' || !claimCall(folder)) return false;',
    replacement: ') return false;',
  },
  {
    file: 'src/tools/process/fork-server.ts',
    code: 'if (isFree && ended && isWhole) returnToPool(server);',
    replacement: 'if (isFree && ended) returnToPool(server);',
  },
  {
    file: 'src/store/workspace/owner-file.ts',
    code: "if (status === 1) return { is: 'held', by };",
    replacement: "if (status === 1) return { is: 'ours', by };",
    tests: OWNERSHIP,
  },
  {
    file: 'src/store/workspace/owner-file.ts',
    code: 'return dev === folder.dev && ino === folder.ino;',
    replacement: 'return true;',
    tests: [['tests/cli/copied-workspace.test.ts']],
  },
  {
    file: 'src/store/session/outbox.ts',
    code: 'return ifExists(() => readFileBytes(path))?.equals(Buffer.from(content)) ?? false;',
    replacement: 'return true;',
  },
  {
    file: 'src/store/plan/plan-file.ts',
    code: 'if (old && old.last?.text !== here.seen()) {',
    replacement: 'if (old && false) {',
  },
];

/** The tests of a file's room, likeliest first: each list is run only if the one before it noticed nothing. */
export const TESTS: Array<[place: string, lists: string[][]]> = [
  ['src/store/', [['tests/store'], ['tests/power']]],
  ['src/engine/calls/permission-gate', [['tests/engine/gate', 'tests/engine/approvals', 'tests/engine/notes']]],
  ['src/engine/', [['tests/engine/durability'], ['tests/engine'], ['tests/modes']]],
  ['src/protocol/', [['tests/protocol'], ['tests/tools/permissions']]],
  ['src/core/', [['tests/core'], ['tests/engine'], ['tests/modes']]],
  ['src/daemon/', [['tests/daemon']]],
  ['src/client/', [['tests/client'], ['tests/cli']]],
  ['src/tools/web/', [['tests/tools/web-'], ['tests/tools/check']]],
  ['src/tools/check/', [['tests/tools/check'], ['tests/tools/web-']]],
  ['src/tools/browser/', [['tests/tools/browser']]],
  ['src/tools/toolbox/', [['tests/tools/toolbox']]],
  ['src/tools/permissions/', [['tests/tools/permissions', 'tests/tools/toolbox']]],
  ['src/tools/jobs/', [['tests/tools/jobs']]],
  ['src/tools/mcp/', [['tests/tools/mcp']]],
  ['src/tools/process/fork-server', [['tests/tools/fork-server'], ['tests/tools/shell']]],
  ['src/tools/process/', [['tests/tools/supervisor'], ['tests/tools/shell', 'tests/tools/fork-server']]],
  ['src/tools/files/write-file', [['tests/tools/durability'], ['tests/tools/paths', 'tests/tools/files']]],
  [
    'src/tools/',
    [
      ['tests/tools/paths', 'tests/tools/files'],
      ['tests/tools/flip', 'tests/tools/search', 'tests/tools/toolbox', 'tests/tools/check'],
    ],
  ],
  ['src/main/', [['tests/store/durability', 'tests/daemon/live-settings'], ['tests/flow']]],
  ['src/', [['tests/flow']]],
];

export function testsFor(file: string): string[][] {
  return TESTS.find(([place]) => file.startsWith(place))?.[1] ?? [['tests']];
}
