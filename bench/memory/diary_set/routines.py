"""What happens again and again, so that only the date tells one time from another; with the ways to ask for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Routine:
    """``told``: what entries say; ``asked``: questions with ``{when}``; every second of each is for odd seeds."""

    name: str
    tags: tuple[str, ...]
    told: tuple[str, ...]
    asked: tuple[str, ...]
    english: bool = False


def _routine(name: str, tags: str, told: str, asked: str, english: bool = False) -> Routine:
    def lines(text: str) -> tuple[str, ...]:
        return tuple(line.strip() for line in text.strip().splitlines())

    return Routine(name, tuple(tags.split()), lines(told), lines(asked), english)


ROUTINES = (
    _routine(
        "晨跑",
        "跑步 运动",
        """沿着{pl}跑了{n}公里，配速掉了一点，{p}在半路打了招呼。
清早跑步，绕{pl}两圈，一共{n}公里，膝盖没事。
跑步第{n}天，和{p}一起，心率压在{h}。
今天跑得很慢，{n}公里用了快一个钟头，在{pl}歇了两回。
换了新鞋跑步，在{pl}跑完{n}公里，脚趾有点挤。
{p}带跑，{n}公里间歇，跑到最后只剩喘气。""",
        """{when}跑步跑了多少公里？
{when}晨跑的路线是哪里？
{when}跑步的时候和谁一起？
{when}我跑得怎么样？
{when}跑步身体有什么感觉？
{when}那次晨跑写了些什么？""",
    ),
    _routine(
        "例会",
        "例会 工作",
        """周例会开了{h}分钟，{p}主持，定下来先做登录页，其余往后放。
例会上{p}和{p2}意见不合，最后按{p2}的办，{n}号前给结果。
开例会，结论有三条，第一条是砍掉{n}个需求，{p}负责跟进。
例会临时挪到{pl}，来了{n}个人，{p}念完数据就散了。
例会讨论预算，{p}要{m}万，批了一半。
今天例会轮到{p2}记录，重点是招{n}个新人，{p}去谈。""",
        """{when}的例会定了什么？
{when}开会是谁主持的？
{when}例会上有什么结论？
{when}开会讨论了哪些事？
{when}例会开了多久？
{when}会上谁和谁意见不同？""",
    ),
    _routine(
        "下馆子",
        "美食 聚餐",
        """和{p}去{pl}吃饭，点了{dish}，味道比上回好，{n}个人花了{m}元。
晚饭约在{pl}，{dish}端上来就抢光了，{p}请客。
跟{p}、{p2}聚餐，{pl}那家新开的，{dish}偏甜。
{p}生日，在{pl}订了包间，招牌是{dish}，吃到打烊。
加班后和{p2}随便吃了点{dish}，人均{n}块，店在{pl}。
带爸妈下馆子，选了{pl}，他们最爱{dish}。""",
        """{when}在外面吃饭点了什么？
{when}聚餐是在哪里吃的？
{when}和谁一起吃的饭？
{when}那顿饭花了多少钱？
{when}下馆子吃的什么菜？
{when}吃饭的店在什么地方？""",
    ),
    _routine(
        "看电影",
        "电影 周末",
        """看了{film}，{p}哭得不行，我倒觉得后半段拖。
和{p}看{film}，{pl}的影厅人不到{n}个，片尾曲很好。
晚场{film}，票价{n}元，{p2}中途睡着了。
在家投影放{film}，{p}带了爆米花，打分{n}分以内我给七分。
{film}重映，第二次看，注意到{n}处伏笔。
陪{p}看{film}，出来争论结局，从{pl}一路说到车站。""",
        """{when}看了哪部电影？
{when}看电影是和谁去的？
{when}看的片子我觉得怎么样？
{when}看电影花了多少？
{when}电影看完有什么感想？
{when}去哪里看的电影？""",
    ),
    _routine(
        "读书",
        "阅读 读书",
        """{book}读到第{m}页，作者绕来绕去，终于把伏笔收了。
今天读完{book}，抄了{n}段，{p}推荐得没错。
{book}重读，第{n}章写得最好，想送{p}一本。
睡前读{book}，看了{n}页就困了。
读书会讲{book}，{p}主讲，来了{n}位，在{pl}。
借来的{book}到期，续了{n}天，划线的地方都拍了照。""",
        """{when}读的是哪本书？
{when}读书读到了哪里？
{when}看的那本书是谁推荐的？
{when}读完书有什么摘抄？
{when}我在看什么书？
{when}读书那天写了什么？""",
    ),
    _routine(
        "通话",
        "家人 电话",
        """给家里打电话，妈说{p}家的孩子考上了，聊了{h}分钟。
跟爸通了电话，老家的院子漏雨，花{m}元找人修。
奶奶来电话，问什么时候回，说{dish}给我留着。
视频里外婆精神不错，让我少熬夜，聊了{h}分钟。
妈打来问工作，我报喜不报忧，她提起{pl}要拆。
和姐姐通话，{n}月打算回去一趟，商量给爸买血压计。""",
        """{when}和家里打电话说了什么？
{when}通话聊了多久？
{when}家里来电话讲了哪些事？
{when}跟家人打电话提到谁了？
{when}电话里家里出了什么状况？
{when}跟家里通话，他们交代了什么？""",
    ),
    _routine(
        "练琴",
        "音乐 练琴",
        """练琴{h}分钟，第{n}小节总是抢拍，{p}老师让用节拍器。
上琴课，{p}布置了新的练习曲，编号{m}。
练琴手腕酸，只弹了音阶，速度{h}。
琴课改到{pl}，{p}夸左手稳了。
弹给{p2}听，错了{n}处，她没听出来。
调琴师来了，换了{n}根弦，{m}元。""",
        """{when}练琴练了什么？
{when}琴课老师怎么说？
{when}弹琴弹得怎么样？
{when}练琴有什么问题？
{when}的琴课在哪里上的？
{when}弹琴错在哪儿？""",
    ),
    _routine(
        "逛菜场",
        "买菜 生活",
        """去{pl}买菜，番茄{n}元一斤，买了两条鱼，{p}帮着拎。
菜场收摊前捡了便宜，{n}样菜才{m}块。
买菜碰见{p}，她教我挑莲藕，要{n}节的。
{pl}的摊主换了，称不太准，少了{n}两。
一早买菜，排骨涨到{h}元，改买豆腐。
网上买菜，少送了{n}样，客服退了{m}块。""",
        """{when}买菜买了什么？
{when}去菜场花了多少钱？
{when}买菜遇到谁了？
{when}菜价怎么样？
{when}买菜是在哪里买的？
{when}买菜出了什么岔子？""",
    ),
    _routine(
        "短途出行",
        "出行 旅行",
        """坐车去{pl}住了{n}晚，房间号{m}，窗外就是水，{p}一路拍照。
和{p}出门两天，先到{pl}，民宿老板送了一碟{dish}。
出差去{pl}，高铁晚点{h}分钟，酒店{m}元。
自驾{m}公里，{p}开车，晚上歇在{pl}。
一个人旅行，{pl}走到哪算哪，脚底起泡，住{n}人间。
带{p2}去{pl}看雪，车票抢了{n}次。""",
        """{when}出门住在哪里？
{when}出去玩是和谁同行？
{when}那趟旅行去了什么地方？
{when}出行路上出了什么事？
{when}旅行住的房间是什么样的？
{when}出远门花了多少钱？""",
    ),
    _routine(
        "写代码",
        "编程 项目",
        """写了一天代码，改掉{n}个警告，{p}评审提了{m}条意见。
调接口，{p}给的文档缺字段，来回{n}趟才通。
代码合并冲突{n}处，和{p2}一起解，晚了两小时。
给脚本补测试，覆盖到百分之{h}，抓到一个边界错误。
重构旧模块，删了{m}行，{p}说早该删。
性能调优，接口从{m}毫秒降到{n}毫秒。""",
        """{when}写代码改了什么？
{when}编程的时候和谁一起解决问题的？
{when}代码上有什么进展？
{when}写程序遇到了什么麻烦？
{when}开发做到了哪一步？
{when}写的代码效果怎么样？""",
    ),
    _routine(
        "健身",
        "健身 运动",
        """健身房练腿，深蹲{n}0公斤，{p}在旁边保护。
练背，引体{n}个，比上回多两个。
私教{p}加了新动作，做{n}组就发抖。
健身房人多，等器械{n}分钟，改练核心。
游泳{m}米，换气还是呛，{p2}笑我。
瑜伽课，{p}老师，倒立坚持{h}秒。""",
        """{when}健身练了什么？
{when}锻炼的时候谁在旁边？
{when}去健身房练到什么程度？
{when}健身有什么进步？
{when}运动做了多少组？
{when}那次锻炼感觉如何？""",
    ),
    _routine(
        "做梦",
        "梦 睡眠",
        """梦见回到{pl}，{p}站在门口，门上写着{m}，醒来心跳得快。
做了个怪梦，{p}变成鱼，绕着{n}根柱子游。
夜里梦到考试，卷子有{n}页，一题都不会。
梦里在{pl}找车站，找了{n}趟，总差一步。
梦到奶奶做{dish}，香味太真。
噩梦，电梯一直往下，按了{n}次停不住，{p}喊我才醒。""",
        """{when}做了什么梦？
{when}梦见了谁？
{when}的梦里出现了什么地方？
{when}夜里梦到什么？
{when}那个梦是什么内容？
{when}做梦醒来是什么感觉？""",
    ),
)

ENGLISH_ROUTINES = (
    _routine(
        "standup",
        "standup work",
        """Standup took {h} minutes; {p} is blocked on the API, I moved ticket {m} to review.
Daily standup with {p} and {p2}: we agreed to drop {n} cards.
Short standup, {p} away, {p2} demoed the new filter, {n} issues left.
Standup ran late again, {n} topics, {p} wants a parking lot for them.""",
        """What did we say at the standup {when}?
Who was blocked at the standup {when}?
What came out of the standup {when}?
Which ticket did I mention in the standup {when}?""",
        english=True,
    ),
    _routine(
        "gym",
        "gym health",
        """Gym session: {n} sets of squats, {n}0 kg, {p} spotted me.
Swam {m} metres at the gym, {p} timed it.
Leg day at the gym near {pl}, {n} reps and a sore back.
Gym was packed, did {n} minutes of rowing and left.""",
        """What did I do at the gym {when}?
How was my training {when}?
Who trained with me at the gym {when}?
How hard was the workout {when}?""",
        english=True,
    ),
    _routine(
        "lesson",
        "English lesson",
        """English lesson with {p}: {n} new idioms, homework on page {m}.
Lesson {m}: {p} corrected my articles {n} times.
Conversation lesson about travel, {p} made me retell {film} in {n} minutes.
English lesson moved to {pl}, we read {n} pages aloud.""",
        """What did I learn in the English lesson {when}?
Who taught my lesson {when}?
What was the homework from the lesson {when}?
What was the lesson about {when}?""",
        english=True,
    ),
    _routine(
        "dinner",
        "dinner friends",
        """Dinner with {p} at {pl}, shared {dish}, the bill was {m}.
Cooked dinner for {p} and {p2}: {dish}, {n} servings gone.
Late dinner near {pl}, {p} told the story of the lost suitcase, {n} of us.
Potluck dinner, I brought {dish}, {p} rated it {n} out of twenty.""",
        """What did I have for dinner with friends {when}?
Where was the dinner {when}?
Who came to dinner {when}?
What happened at dinner {when}?""",
        english=True,
    ),
)

LEAD_INS = (
    "",
    "帮我想想，",
    "我记不清了，",
    "翻翻日记，",
    "查一下，",
    "请问，",
    "还记得吗，",
    "突然想知道，",
    "忘了写在哪了，",
    "你那边有记录吗，",
    "想回顾一下，",
    "有个事想确认，",
    "写总结要用，",
    "跟朋友说起来，",
    "睡前忽然想到，",
    "整理资料用，",
    "麻烦找找，",
    "刚才有人问我，",
    "我想核对一下，",
    "对了，",
    "日记里应该有，",
    "看看以前怎么写的，",
    "想不起来，",
    "顺便问一句，",
)

ENGLISH_LEAD_INS = ("", "Remind me: ", "I forgot, ", "Quick question: ", "Please check, ", "Looking back: ")

WHOLE_DAYS = (
    "{when}我都做了些什么？",
    "{when}发生了哪些事？",
    "{when}写了什么？",
    "{when}过得怎么样？",
    "{when}的日记讲了什么？",
    "把{when}的记录找出来。",
    "{when}有什么值得一提的？",
    "给我看{when}的内容。",
    "{when}我在忙什么？",
    "{when}那天是怎么过的？",
    "{when}都记下了什么？",
    "回忆一下{when}。",
)
