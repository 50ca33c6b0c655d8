"""Facts whose value changes: entries that give a new value, and questions for the one that counts today."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Fact:
    """``told``: its name in entries; ``asked``: in questions; ``value``: their form; ``what``: how one asks for it."""

    told: str
    asked: str
    value: str
    what: str
    english: bool = False


def _facts(text: str, english: bool = False) -> tuple[Fact, ...]:
    rows = [[part.strip() for part in line.split("|")] for line in text.strip().splitlines()]
    return tuple(Fact(told, asked, value, what, english) for told, asked, value, what in rows)


# Every second line is for odd seeds. {m} and {n} are numbers, {x} letters and digits, {pl} a place, {p} a person.
FACTS = _facts(
    """家里的无线密码|家里无线网的密码|{x}|是什么
办公室的门禁密码|公司门禁的密码|{m}{n}|是多少
健身房的月费|健身房一个月的费用|{m}元|是多少
琴课的学费|上琴课的费用|每节{m}元|是多少
车位编号|我的停车位号|{x}|是哪个
储物柜号码|储物柜的编号|{x}|是几号
房租|每月的房租|{m}元|是多少
物业费|物业费的数目|{m}元|是多少
牙医诊所的地址|看牙的诊所|{pl}{n}号|在哪里
理发店的地址|常去的理发店|{pl}{n}号|在哪里
降压药的剂量|降压药的用量|每天{n}毫克|是多少
维生素的剂量|维生素的用量|每天{n}粒|是多少
例会时间|例会的时间|每周{w}{n}点|是什么时候
读书会时间|读书会的时间|每周{w}{n}点|是什么时候
测试环境的地址|测试环境的机器地址|10.{n}.{n}.{m}|是多少
备份服务器的地址|备份服务器的机器地址|192.168.{n}.{m}|是多少
发布窗口|发布的时间窗口|周{w}晚上{n}点|是什么时候
值班表负责人|值班表的负责人|{p}|是谁
社团联系人|社团的联系人|{p}|是谁
私教|私人教练|{p}|是谁
钢琴老师|教琴的老师|{p}|是谁
猫粮牌子|猫吃的粮|{x}牌|是什么牌子
咖啡豆牌子|咖啡豆的牌子|{x}牌|是什么牌子
宽带套餐|家里的宽带套餐|{m}兆|是多少兆
手机套餐|手机的流量套餐|每月{n}G|是多少
空腹体重|我早上的体重|{h}点{n}公斤|是多少
静息心率|我的静息心率|每分钟{h}下|是多少
装修预算|装修的总预算|{h}万|是多少
旅行基金|旅行基金的余额|{m}元|有多少
存款目标|今年的存款目标|{h}万元|是多少
阅读目标|今年的读书目标|{h}本|是多少本
新书稿的书名|在写的那本书的名字|《{pl}的{x}》|叫什么
话剧的剧名|排的那部戏的名字|《{pl}{n}夜》|叫什么
乐队的名字|我们乐队的名字|{x}乐队|叫什么
队名|比赛用的队名|{x}小队|叫什么
论文截稿日|论文的截止日期|{n}月{n}日|是哪天
项目验收日|项目验收的日期|{n}月{n}日|是哪天
婚礼日期|表姐婚礼的日子|{n}月{n}日|是哪天
搬迁日期|办公室搬迁的日子|{n}月{n}日|是哪天
快递代收点|收快递的地方|{pl}{n}号柜|在哪里
菜鸟驿站|取包裹的站点|{pl}{n}号架|在哪里
会员卡号|超市会员卡的号码|{m}{m}|是多少
图书证号|图书馆借书证号|{m}{m}|是多少
血糖|我的空腹血糖|{n}点{n}|是多少
球拍磅数|羽毛球拍的磅数|{h}磅|是多少
团队人数|我们组的人数|{h}人|是多少
社区志愿者人数|志愿者队伍的人数|{h}人|是多少
猫的体重|小猫的重量|{n}点{n}斤|是多少"""
)

ENGLISH_FACTS = _facts(
    """guest wifi code|the code for the guest network|{x}|
staging URL|the address of the staging site|stage-{x}.internal|
standup time|the hour of our standup|{n}:{mi}|
review rota|the person in charge of reviews|{p}|
API quota|our request limit|{m} calls a minute|
build timeout|the time limit of a build|{m} seconds|
gym locker|my locker at the gym|{x}|
tutor's fee|what a tutoring hour costs|{m} yuan|
parking slot|my place in the garage|{x}|
visa appointment|the date at the consulate|{n}/{n}|
favourite cafe|the cafe I like most|the one at {pl}|
savings goal|the sum I want to save|{m} thousand|
flat deposit|the deposit for the flat|{m} yuan|
team name|what our team is called|Team {x}|""",
    english=True,
)

FIRST_TOLD = (
    "记一下，{told}是{value}。",
    "{told}定为{value}，先这么用。",
    "问清楚了，{told}：{value}。",
    "今天登记了{told}，{value}。",
    "免得忘，{told}写在这里：{value}。",
    "{told}目前是{value}，以后有变化再说。",
)
CHANGED = (
    "{told}改了，从{old}变成{value}。",
    "接到通知，{told}换成{value}，旧的作废。",
    "{told}又调整，这回是{value}。",
    "原来{told}是{old}，今天起用{value}。",
    "{told}更新为{value}，{p}来说的。",
    "{told}不再是{old}了，改用{value}。",
    "跟{p}确认过，{told}现为{value}。",
    "{told}变动：{value}。上次那个别用了。",
)
MENTIONED = (
    "{p}又来问{told}，让他自己翻以前的记录。",
    "有人打听{told}，我一时没答上来。",
    "聊到{told}，大家都嫌变得太勤。",
    "{told}贴在墙上的纸条掉了，懒得再贴。",
    "为了{told}的事跟{p}拌了两句嘴。",
    "差点把{told}说给外人听，赶紧打住。",
)
ASKED = (
    "现在{asked}{what}？",
    "{asked}目前{what}？",
    "{asked}如今{what}来着？",
    "最新的{asked}{what}？",
    "{asked}现在到底{what}？",
    "我要用了，{asked}{what}？",
    "{asked}改来改去，现行的{what}？",
    "告诉我{asked}现在{what}。",
    "{asked}最后一次改完{what}？",
    "按最新的记录，{asked}{what}？",
    "{asked}眼下{what}？",
    "要填表，{asked}{what}？",
    "{asked}这会儿{what}，别给我旧的。",
    "到今天为止{asked}{what}？",
    "帮忙确认{asked}当前{what}。",
    "朋友在问，{asked}现在{what}？",
    "{asked}更新以后{what}？",
    "{asked}最近一次的变动结果{what}？",
    "别说以前的，{asked}现在{what}？",
    "{asked}还是老样子吗，现在{what}？",
    "我现在的记录里，{asked}{what}？",
    "{asked}有没有变，现在{what}？",
    "手头没有，{asked}当前{what}？",
    "再问一遍，{asked}现在{what}？",
)
ENGLISH_FIRST_TOLD = ("Note to self: {told} is {value}.", "Wrote down the {told}: {value}.")
ENGLISH_CHANGED = (
    "The {told} changed from {old} to {value}.",
    "New {told}: {value}, forget the old one.",
    "{p} says the {told} is {value} from now on.",
    "Updated the {told} again, {value} this time.",
)
ENGLISH_MENTIONED = ("{p} asked about the {told} again.", "Someone took a photo of the {told}, not great.")
ENGLISH_ASKED = (
    "What is {asked} now?",
    "Tell me {asked}, the current one.",
    "I need {asked}, the latest please.",
    "As of today, what is {asked}?",
    "Not the old one: what is {asked}?",
    "Could you look up {asked} as it stands now?",
)
