import type { Clause } from './clauses.ts';
import { numberValue, type Token, tagsOf, tokenize } from './lexer.ts';
import { type IntentLanguage, lexiconOf } from './lexicons.ts';

/** What one clause does. `say`: it tells something; `order`: it asks for other work; `grant`: it gives an amount. */
export type Act =
  | 'stop'
  | 'pause'
  | 'wait'
  | 'dontGo'
  | 'dontStop'
  | 'go'
  | 'grant'
  | 'undo'
  | 'yes'
  | 'no'
  | 'weakGo'
  | 'back'
  | 'newTask'
  | 'filler'
  | 'question'
  | 'rather'
  | 'also'
  | 'order'
  | 'say';

/** An amount that a message grants, such as 20 more rounds. */
export type Amount = { readonly value: number; readonly unit: 'iterations' | 'minutes' | 'tokens' };

export type ClauseAct = {
  readonly act: Act;
  readonly clause: Clause;
  readonly tags: string;
  /** Where the order itself ends, if an instruction follows in the same clause. */
  readonly restAt?: number;
  readonly amount?: Amount;
};

// The grammar: patterns over the letters of `WORD_CLASSES`, shared by all languages. A clause is an order only if all
// of its words have a place in it.
const BEFORE = '^[fykjg]*';
const HALT = /^[fykzjgd]*(?:[swp][ojfSdyz]*)+$/;
const HALT_SOME_TIME = /^[fykzjgd]*(?:[wp][ojfSdyz]*)+(?:L?#[mb]?b?[jf]*)$/;
/** "Stop, you are …" without the comma. */
const HALT_AND_WHY = /^[fykzjg]*(?:[swp][ojfyz]*)+(?:[rR]|l?n|lr).*$/;
const HALT_UNTIL = /^[fykzjg]*(?:[sp][ojfyz]*)+T.*$/;
const DONT_STOP = /^[fykzjgdola]*[nN][fjkNo]*[swp]/;
const DONT_GO = /^[fykzjgdlrA]*n[fjkn]*[cw][ojfeSdyN]*(?:[TrlLi].*)?$/;
const DONT_DO = /^[fykzjl]*n[fjk]*d[fj]*$/;
const DONT_DO_IT = /^[fykzjlr]*n[fjk]*d[ofj]*$/;
const GO = new RegExp(`${BEFORE}[dl]?[fykj]*(?:c[ojfSecdyg#]*)+$`);
const GO_AND = new RegExp(`${BEFORE}[dl]?[fykj]*(?:c[ojfyeS]*)+(?=[TlLa#nr]|M#)`);
const GO_ON_DOING = new RegExp(`${BEFORE}[l]?[fykj]*(?:c[fyo]*)+(?=[dt])`);
const REST = /^[fykzjlgc]*(?:d[ojfd]*e|e[ojfd]*d)[ojfSdyec]*$/;
const GO_FROM = /^[fykjlr]*L[^qhisp]{1,9}c[ojfde]*$/;
const SOMETHING_AND_GO = /^[^qihswpnNT]{1,9}lc[ojfy]*$/;
const GRANT = /^[fykzjogrlLa]*(?:[vMmLdtRg][ojfykL]*)*#[mbSMjofLkdyc]*(?:[lLTrR].*|(?<=b[mjofLkdyM]*)x{1,3})?$/;
const UNDO = /^[fykzjolLr]*A?[ofjSeL]*u[ofjSy#e]*(?:[rlLR].*)?$/;
const NOT_DONE = /^[fykzjlA]*(?:[oSrj][#jf]*)*(?:[oA]*A[oA]*)?[nN]+[ofjnN]*D[ofjN]*(?:[rl].*)?$/;
const NOT_DONE_UNSPACED = /^[fykjl]*(?:[oSj][#jf]*)*[N][jf]*[Dd][ofj]*$/;
const UNDONE = /^[fykjolzSrA#]*U[ofjySrL]*$/;
const DONE_BUT_NOT = /^[^qnN]*D[ofj]*l[orj]*[nN][oj]*$/;
const CONSENT = /^[fyjok]*y[fyjo]*$/;
const REFUSAL = /^[fj]*[zn][fznj]*$/;
const WEAK_GO = /^[fyjlz]*[gmD][fygjomD]*$/;
/** "And?" */
const ASKS_FOR_MORE = /^[fj]*[lg]$/;
const BACK = /^[fykjzlcg]*B[ojfySde]*$/;
const NEW_TASK = /^[fykjzlro]*E[ojfy]*$/;
const RAISING =
  /rais|limit|up |bump|increas|extend|提高|调|放宽|上调|sub|aument|erhoh|mont|augment|подн|увел|올려|늘려/;

/** Languages that negate after the verb as well: "hör nicht auf", "continue pas", 계속하지 마. */
const NEGATED_AFTER: ReadonlySet<IntentLanguage> = new Set(['de', 'fr', 'ja', 'ko']);
/** "Cancel the last step" takes the step back. */
const CANCELS_STEP = /(?:^| )s(?:cancel|annul|отмен|取消|キャンセル|취소|取り消)\S*(?: [fj]\S*)* S/;

/** What a clause does, read in a language. Pure and total. */
export function readClause(clause: Clause, language: IntentLanguage): ClauseAct {
  const tokens = tokenize(clause, language);
  const tags = tagsOf(tokens);
  const { isUnspaced } = lexiconOf(language);
  const isQuestion = asksSomething(tags, clause, isUnspaced);
  const read = (act: Act, more: Partial<ClauseAct> = {}): ClauseAct => ({ act, clause, tags, ...more });
  if (/^[fj]*$/.test(tags)) return read('filler');
  if (isQuestion) return read(ASKS_FOR_MORE.test(tags) ? 'weakGo' : 'question');
  const order = readHalt(tags, tokens, language) ?? readUndo(tags, isUnspaced);
  if (order) return read(order);
  const grant = grantedAmount(tags, tokens, isUnspaced);
  if (grant) return read('grant', { amount: grant });
  const go = readGo(tags, tokens, isUnspaced);
  if (go) return read('go', go);
  if (BACK.test(tags)) return read('back');
  if (NEW_TASK.test(tags)) return read('newTask');
  if (CONSENT.test(tags)) return read('yes');
  if (REFUSAL.test(tags)) return read('no');
  if (WEAK_GO.test(tags)) return read('weakGo');
  return read(readOther(tags));
}

/** A request ("could you …?") asks nothing. */
function asksSomething(tags: string, clause: Clause, isUnspaced: boolean): boolean {
  if (isUnspaced && tags.includes('q')) return true;
  if (/^[fykjzlr]*q/.test(tags)) return true;
  return clause.isAsked && !/^[fyjzl]*k/.test(tags) && !(isUnspaced && tags.includes('f'));
}

function readHalt(tags: string, tokens: readonly Token[], language: IntentLanguage): Act | undefined {
  if (DONT_STOP.test(tags)) return 'dontStop';
  if (DONT_GO.test(tags) || DONT_DO.test(tags)) return 'dontGo';
  if (DONT_DO_IT.test(tags)) return tokens.some(({ text }) => text.startsWith('any')) ? 'dontGo' : 'rather';
  if (NEGATED_AFTER.has(language) && /^[^nN]*[swpc][foj]*[nN]/.test(tags))
    return /^[^nN]*c/.test(tags) ? 'dontGo' : 'dontStop';
  const mayGiveReason =
    (!lexiconOf(language).isUnspaced || language === 'ko') && !tokens.some(({ text }) => text === 'para');
  const halts =
    HALT.test(tags) || HALT_SOME_TIME.test(tags) || HALT_UNTIL.test(tags) || (mayGiveReason && HALT_AND_WHY.test(tags));
  if (!halts) return undefined;
  if (CANCELS_STEP.test(tokens.map(({ text, tag }) => `${tag}${text}`).join(' '))) return 'undo';
  const order = /[swp]/.exec(tags)?.[0];
  return order === 's' || /s/.test(tags.replace(/[rRnlT].*/, '')) ? 'stop' : order === 'p' ? 'pause' : 'wait';
}

function readUndo(tags: string, isUnspaced: boolean): Act | undefined {
  if (UNDONE.test(tags) || UNDO.test(tags) || DONE_BUT_NOT.test(tags)) return 'undo';
  return (isUnspaced ? NOT_DONE_UNSPACED : NOT_DONE).test(tags) ? 'undo' : undefined;
}

function readGo(tags: string, tokens: readonly Token[], isUnspaced: boolean): Partial<ClauseAct> | undefined {
  const amount = anyAmount(tags, tokens);
  const found = amount && { amount };
  if (GO.test(tags) || REST.test(tags)) return { ...found };
  if ((isUnspaced && GO_FROM.test(tags)) || SOMETHING_AND_GO.test(tags)) return { ...found, restAt: -1 };
  const head = GO_AND.exec(tags)?.[0] ?? (isUnspaced ? GO_ON_DOING.exec(tags)?.[0] : undefined);
  if (head === undefined) return undefined;
  return { ...found, restAt: tokens[head.length - 1]?.end ?? -1 };
}

function grantedAmount(tags: string, tokens: readonly Token[], isUnspaced: boolean): Amount | undefined {
  if (!GRANT.test(tags)) return undefined;
  const near = tags.replace(/(?<=[mb#S])[lLTrRx].*$/, '');
  const isRaise = /v/.test(near) && tokens.some(({ text, tag }) => tag === 'v' && RAISING.test(text));
  const isGiven = /[vM]/.test(near) && /[mbSM]/.test(near);
  const isMore = /m/.test(near) && (/b/.test(near) || !(isUnspaced || /t/.test(near)));
  if (!isRaise && !isGiven && !isMore) return undefined;
  const amount = anyAmount(tags, tokens);
  const isTime = amount?.unit === 'minutes';
  return isTime && !/[vM]/.test(near) ? undefined : amount;
}

/** The first number of a clause that is an amount of work or time. */
function anyAmount(tags: string, tokens: readonly Token[]): Amount | undefined {
  const at = tags.search(/(?<!S)#/);
  const value = numberValue(tokens[at]?.text ?? '');
  if (value === undefined || !/[bmMSv]/.test(tags)) return undefined;
  const unit = tokens.slice(at + 1, at + 5).find(({ tag }) => tag === 'b')?.name;
  if (unit === 'minutes' || unit === 'hours') return { value: unit === 'hours' ? value * 60 : value, unit: 'minutes' };
  return { value, unit: unit === 'tokens' ? 'tokens' : 'iterations' };
}

function readOther(tags: string): Act {
  if (/^[fyjkz]*R/.test(tags) || /R[fj]*$/.test(tags)) return 'rather';
  if (/^[fyjkl]*a/.test(tags) || (/a/.test(tags) && /^[fykjm]*[tdxvA]/.test(tags))) return 'also';
  return /^[fykjzl]*[tdn]/.test(tags) ? 'order' : 'say';
}
