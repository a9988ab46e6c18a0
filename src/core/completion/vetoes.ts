/** Why a step is not closed, whatever else the turn says. */
export type Veto = 'tool_failed' | 'not_done' | 'blocked';

/** Only the opening bracket and the words count, so that a reason may hold anything: `[Blocked: a[1] is missing]`. */
const OPPOSITES: readonly (readonly [Veto, RegExp])[] = [
  [
    'not_done',
    /[[【［]\s*(?:(?:step |步骤|步驟)?(?:not (?:yet )?(?:done|completed?|finished)|incomplete|unfinished)(?![\p{L}])|(?:步骤|步驟)?(?:未|尚未|还没|還沒|还没有|還沒有|没有|沒有|没|沒)(?:完成|结束|結束|做完)|未完了|(?:no (?:hecho|completado|terminado)|nicht (?:erledigt|fertig)|pas (?:fait|terminé))(?![\p{L}]))/iu,
  ],
  [
    'blocked',
    /[[【［]\s*(?:step |步骤|步驟)?(?:(?:blocked|stuck|bloqueado|blockiert|bloqué)(?![\p{L}])|(?:被|已)?(?:阻塞|受阻|卡住|阻断|阻斷)|ブロック)/iu,
  ],
];
/** The obstacle is gone: "no longer [Blocked]". */
export const LIFTED = /(?:\b(?:not|no longer|never)|n['’]t|不再|没有|沒有|不)\s*[*_]*$/iu;

/**
 * The veto of this turn, if any: a tag that says the opposite of a marker, or a tool that failed. A failed tool is no
 * evidence that the step failed, only that a claim made in the same breath has none.
 */
export function vetoOf(
  lines: readonly string[],
  lastToolFailed: boolean,
): { veto: Veto; evidence: string } | undefined {
  for (const line of lines) {
    for (const [veto, pattern] of OPPOSITES) {
      const found = pattern.exec(line);
      if (found && !LIFTED.test(line.slice(0, found.index)) && !/\w$/.test(line.slice(0, found.index)))
        return { veto, evidence: line.slice(found.index) };
    }
  }
  return lastToolFailed ? { veto: 'tool_failed', evidence: '' } : undefined;
}
