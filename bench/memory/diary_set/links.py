"""What is called by another name: one entry explains the name, others use it, and questions know only the thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Alias:
    """A short ``name`` for something; entries explain it with ``told``, questions describe it with ``asked``."""

    name: str
    told: str
    asked: str


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Things of one kind, what is told of them under their short name, and how one asks for that."""

    explained: tuple[str, ...]
    aliases: tuple[Alias, ...]
    aspects: tuple[tuple[str, str], ...]
    tag: str


def _kind(tag: str, explained: str, aliases: str, aspects: str) -> Kind:
    def rows(text: str) -> list[list[str]]:
        return [[part.strip() for part in line.split("|")] for line in text.strip().splitlines()]

    return Kind(
        tuple(line.strip() for line in explained.strip().splitlines()),
        tuple(Alias(*row) for row in rows(aliases)),
        tuple((row[0], row[1]) for row in rows(aspects)),
        tag,
    )


KINDS = (
    _kind(
        "代号",
        """新活儿定了：{told}。会上给它起了个代号叫{name}，以后都这么叫。
{p}说名字太长，{told}从今往后就叫{name}。
立项通过，内容是{told}，代号{name}，抽签抽来的。
为了保密，{told}对外一律称{name}。""",
        """青鸾|替市图书馆做旧书检索|图书馆检索旧书
灰雁|替档案馆做扫描归档|档案馆扫描归档
半岛|给养老院装跌倒报警|养老院防跌倒
石桥|给幼儿园做接送登记|幼儿园接送登记
琥珀|帮果园预测收成|果园估产
白桦|帮苗圃管灌溉|苗圃浇水自动化
北斗街|把公交站牌改成电子的|电子公交站牌
南风|把路灯改成会省电的|省电路灯
拾贝|做海边垃圾的识别|识别沙滩垃圾
听松|做鸟叫声的识别|听声辨鸟
长庚星|替剧院卖夜场票|剧院晚场售票
夜明砂|替博物馆做语音导览|博物馆讲解
小满计划|给农户算化肥用量|农民用多少化肥
谷雨计划|给渔民报风浪|渔民海浪预警
蓝鲸|把客服录音转成文字|客服通话转写
红隼|把会议照片整理成册|会议相片成册""",
        """{name}的验收排在{n}月{n}日，评委{n}位，{p}去准备材料。|验收安排在哪天？
{name}的预算批了{m}万，比报的少两成。|批了多少预算？
{name}换了负责人，{p}接手，交接花了{n}天。|现在由谁负责？
{name}上线头一天崩了{n}次，后来查出是{p}改错了配置。|上线时出了什么事故？
{name}的客户送来一箱{dish}，说很满意。|客户送了什么？
{name}要多招{n}个人，{p}负责面试。|打算招几个人？
{name}的演示放在{pl}，来了{m}位听众。|演示是在什么地方办的？
{name}延期{n}周，因为{p}病了。|为什么延期？""",
    ),
    _kind(
        "外号",
        """给{told}起了个外号叫{name}，他居然挺喜欢。
从今天起{told}就叫{name}了，谁都不许叫本名。
大家起哄，{told}得了个绰号：{name}。
{told}自称{name}，说这样亲切，我们也就跟着叫。""",
        """老船长|楼上那位退休海员|楼上退休的海员
老秒针|对门那位退休钟表匠|对门修钟表的退休师傅
算盘|财务部新来的姑娘|财务部新人
橡皮|设计部新来的小伙|设计部新人
布谷|每天五点起床的室友|总是五点起的室友
夜枭|每晚两点才睡的室友|半夜两点才睡的室友
大闸蟹|教游泳的教练|游泳教练
仙人掌|教瑜伽的老师|瑜伽老师
铁锅|食堂做川菜的大师傅|食堂川菜师傅
砂壶|茶馆跑堂的大叔|茶馆的跑堂
云雀|合唱团领唱|合唱团里领唱的人
低音炮|合唱团指挥|合唱团的指挥
蒲公英|四处出差的表姐|老出差的表姐
候鸟|常年在外跑船的堂哥|跑船的堂哥
磁铁|修手机的店主|手机维修店的老板
螺丝|修自行车的店主|修车铺的老板""",
        """{name}推荐了{book}，说看完睡不着。|推荐了哪本书？
{name}要搬去{pl}，下月{n}号走。|要搬到哪里去？
{name}借走我{m}块，说{n}天后还。|借了我多少钱？
{name}生日收到{dish}，高兴得跳起来。|过生日收到了什么？
{name}和{p}闹翻了，因为一把伞。|跟谁闹翻了？
{name}说他最怕{n}层以上的高楼。|最怕什么？
{name}养了{n}只鹦鹉，最会说话的那只叫{x}。|养了几只鹦鹉？
{name}看完{film}，逢人就劝别去。|看了哪部电影？""",
    ),
    _kind(
        "老地方",
        """跟{p}说好，以后说{name}就是指{told}。
{told}没有招牌，我们自己管它叫{name}。
发现一个好去处，{told}，取名{name}。
{told}，{p}随口叫成{name}，就这么定了。""",
        """树洞|河堤尽头那间旧书吧|河堤尽头的书吧
贝壳|地下一层那家唱片店|地下一层卖唱片的
半坡|天桥底下的面摊|天桥下面的面摊
三角|铁道口的馄饨铺|铁道口卖馄饨的
甲板|写字楼顶上的露台|写字楼楼顶
井底|老校区的防空洞画室|防空洞里的画室
绿房子|植物园里的温室茶座|植物园温室喝茶处
红房子|公园后门的旧邮局|公园后门的邮局
小码头|水库边的木栈道|水库边的栈道
大石头|山腰上的观景亭|半山腰的亭子
月台|废弃火车站改的酒馆|火车站改成的酒馆
灯塔|旧水塔改的自习室|水塔改成的自习室""",
        """{name}涨价了，一份{m}元，老板直道歉。|现在卖多少钱？
{name}换了老板，新来的叫{p}，话多。|换了谁当老板？
在{name}丢了伞，第{n}天才找回。|我在那里丢了什么？
{name}下月关门装修，{n}号以后再去。|什么时候关门？
{name}养了只猫，起名{x}。|那里的猫叫什么？
{p}在{name}向{p2}表白了，全场鼓掌。|谁在那里表白？
{name}周末有人弹琴，{p}弹得最好。|谁在那里弹琴弹得好？
在{name}捡到一本{book}，里面夹着信。|我在那里捡到了什么？""",
    ),
    _kind(
        "设备",
        """新到的{told}，起名{name}，贴了标签。
{told}总算装好，大家叫它{name}。
{p}给{told}喷了漆，写上{name}两个字。
为了好记，{told}的名字定成{name}。""",
        """小白|存照片的网络硬盘|存相片的那块网络硬盘
大黑|放备份的磁带机|做备份的磁带机
铁牛|扫地的机器人|扫地机器人
水牛|擦窗的机器人|擦窗机器人
阿福|门口的智能音箱|门口那只音箱
来旺|车里的导航仪|车上的导航
青蛙|绿色的电动自行车|绿色那辆电动车
蜗牛|蓝色的旧面包车|蓝色那辆面包车
方糖|跑模型的显卡主机|跑模型的主机
年糕|打标签的热敏打印机|打印标签的机器""",
        """{name}坏了，修它花了{m}元，{p}跑的腿。|修理花了多少钱？
{name}的管理密码换成{x}{m}。|密码是什么？
{name}搬到{pl}去了，走了{n}趟。|搬去了哪里？
{name}借给{p}了，{n}天后还。|借给谁了？
{name}的保修到{n}月{m}日为止。|保修到哪天？
{name}昨夜自己响了{n}次，吓人一跳。|夜里响了几次？""",
    ),
)

# Forms of questions that know the thing by its description, and such that know it by its name and ask what it was.
FORMS = (
    "{asked}的那个，{ask}",
    "就是{asked}那个，{ask}",
    "说到{asked}，{ask}",
    "{asked}，后来{ask}",
    "关于{asked}，{ask}",
    "我想问{asked}的事：{ask}",
    "日记里写过{asked}吧，{ask}",
    "{asked}那边，{ask}",
    "还记得{asked}吗，{ask}",
    "查查{asked}，{ask}",
    "提到{asked}的话，{ask}",
    "{asked}——{ask}",
    "有关{asked}，我记得写过，{ask}",
    "想起{asked}，{ask}",
    "朋友打听{asked}，{ask}",
    "写总结要提{asked}，{ask}",
    "不记得名字了，{asked}，{ask}",
    "名字想不起来，反正是{asked}，{ask}",
    "{asked}这件事上，{ask}",
    "以前记的{asked}，{ask}",
    "帮我理一理{asked}，{ask}",
    "核对一下{asked}，{ask}",
    "替我看看{asked}，{ask}",
    "{asked}的话，{ask}",
)
