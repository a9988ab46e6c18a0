import { isReport } from './numbers.ts';
import type { Turn } from './turn.ts';

/** A closing text that leaves the work with the person or with someone still at it. */
const OPEN_END =
  /[?？]\s*$|\b(?:let me know|waiting (?:for|on)|still (?:running|waiting|working)|in progress|interrupted|in parallel|please (?:review|confirm|run|provide|let|send|tell|choose)|once you|your (?:review|approval|preference|choice|decision|call)|shall i|do you want|would you like|which (?:one|option))\b|请(?:你|您|在|确认|审|提供|告诉)|請(?:你|您|在|確認|審|提供|告訴)|吗|嗎|等待|ください/imu;
/** A closing text that says the whole is finished. */
const WHOLE =
  /\b(?:all (?:of the )?(?:[a-z]+ )?(?:steps|tasks|changes|phases|items|checks|tests)|implementation|everything|all done|summary|successfully)\b|总结|總結|全部|所有|すべて|todo(?:s)? (?:listo|hecho)|alles/iu;
const BARE_ASSENT =
  /^[^\p{L}\p{N}]*(?:(?:ok(?:ay)?|sure|yes|no|thanks?|thank you|hi|hello|understood|got it|hm+|好的?|嗯|谢谢|謝謝|明白|收到|了解)[^\p{L}\p{N}]*)*$/iu;
const TAIL = 300;
const LAST_WORDS = 3;

/**
 * The work did not come about, lacks something, or is at hand still: looked for in the last words, since a report may
 * well tell of what failed on the way.
 */
const NOT_REACHED =
  /\b(?:unable to|(?:could|can|did|does) ?not|cannot|(?:could|ca|did|does)n['’]t|(?:is|are|was|were) not (?:possible|available|reachable|done|drawn|there)|fail(?:s|ed|ing)?(?: to|\s*[\]:.!]|$| with| because)|no longer possible|impossible|denied|rejected|requires? (?:a|an|the|your)|needs? (?:a|an|the|your)|i need (?!to)|except|missing|without success)\b|^working on\b|无法|無法|不能|未能|没能|沒能|做不到|失败|失敗|拒绝|拒絕|缺少|需要(?:你|您|一个|数据库|登录|密码|权限)|还没|還沒|没有成功|被拒/imu;
const notReached = ({ statements: { others, intentions, last } }: Turn): boolean =>
  NOT_REACHED.test([...others, ...intentions].slice(-LAST_WORDS).join('\n').slice(-TAIL)) || NOT_REACHED.test(last);
const announces = ({ statements: { intentions, last } }: Turn): boolean => intentions.includes(last);

/** A turn without calls that ends with a report of its own, not with an assent, a plan or an obstacle. */
export const closing = (turn: Turn): boolean =>
  turn.context.final === true &&
  turn.statements.last !== '' &&
  !BARE_ASSENT.test(turn.statements.last) &&
  !announces(turn) &&
  !notReached(turn);
export const reportsWhole = (turn: Turn): boolean => {
  const said = [...turn.statements.others, ...turn.statements.headings, ...turn.statements.intentions];
  return said.some((sentence) => WHOLE.test(sentence)) && said.some(isReport);
};
export const leavesOpen = (turn: Turn): boolean => {
  const { others, last, intentions } = turn.statements;
  return (
    OPEN_END.test([...others, ...intentions].slice(-LAST_WORDS).join('\n').slice(-TAIL)) ||
    OPEN_END.test(last.slice(-TAIL))
  );
};
