/** What a tool does to the world, told from its name alone: the same few words name tools everywhere. */
export type ToolKind = 'run' | 'edit' | 'read' | 'other';

const KINDS: readonly (readonly [ToolKind, RegExp])[] = [
  ['run', /bash|exec|shell|terminal|run|command|stdin|process/i],
  ['edit', /edit|write|patch|create|replace|insert|delete|move|notebook|append/i],
  ['read', /read|grep|glob|^ls$|search|fetch|list|view|find|open|browse|get|look/i],
];
/** The kind of work a step asks for, by its first verb. Steps that begin otherwise ask for nothing in particular. */
const VERBS: readonly (readonly [ToolKind, RegExp])[] = [
  [
    'run',
    /^(?:(?:run|test|verify|lint|build|check|commit|push|validate|compile|install|execute|merge|deploy|start)(?![a-z])|运行|運行|测试|測試|验证|驗證|检查|檢查|安装|安裝|构建|構建|编译|編譯|提交|执行|執行|部署)/i,
  ],
  [
    'read',
    /^(?:(?:read|explore|analy[sz]e|investigate|understand|research|find|identify|review|study|search|look|examine|inspect|discover|map|locate)(?![a-z])|阅读|閱讀|读取|讀取|分析|研究|查找|查看|搜索|了解|调查|調查|探索)/i,
  ],
  [
    'edit',
    /^(?:(?:add|update|create|implement|remove|fix|write|rewrite|edit|move|refactor|rename|replace|modify|delete|strip|extract|wire|change|simplify|convert)(?![a-z])|修改|添加|创建|建立|創建|编写|編寫|写|寫|更新|实现|實現|删除|刪除|重构|重構|修复|修復)/i,
  ],
];
const LABEL =
  /^[^\p{L}]*(?:(?:step|task|phase|part|batch|round|步骤|步驟|任务|任務|阶段|階段)\s*#?\d+\s*[:：—–.-]*\s*)?/iu;

export const kindOfTool = (name: string): ToolKind => KINDS.find(([, pattern]) => pattern.test(name))?.[0] ?? 'other';

export function kindOfStep(description: string): ToolKind {
  const verb = description.replace(LABEL, '');
  return VERBS.find(([, pattern]) => pattern.test(verb))?.[0] ?? 'other';
}
